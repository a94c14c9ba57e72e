/** The main job over MCP, and what the tools say of abilities that Pods lack. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { z } from "../../../src/common/schema.ts";
import type { World } from "../world.ts";

const resultSchema = z.object({
  isError: z.boolean().optional(),
  content: z.array(z.object({ type: z.string(), text: z.string().optional() })),
});

/** What is done with images, in order. */
const BY_IMAGES: readonly (readonly [string, object, RegExp])[] = [
  ["pause_sandbox", {}, /processes have ended/],
  ["get_sandbox", {}, /paused/],
  ["connect_sandbox", {}, /was_resumed"?: ?true/],
  ["read_file", { path: "/home/user/a.txt" }, /two/],
];

export async function runMcp(world: World): Promise<void> {
  const [front] = world.fronts;
  if (front === undefined) throw new Error("no front");
  await using stack = new AsyncDisposableStack();
  const client = new Client({ name: "kubernetes", version: "1" });
  const headers = { authorization: `Bearer ${world.apiKey}` };
  const url = new URL("/mcp", front.url);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  stack.defer(() => client.close());

  const called = new Set<string>();
  async function call(name: string, input: object): Promise<{ isError: boolean; text: string }> {
    called.add(name);
    const reply = resultSchema.parse(await client.callTool({ name, arguments: { ...input } }));
    const text = reply.content.map((part) => part.text ?? "").join("\n");
    return { isError: reply.isError === true, text };
  }

  async function expectCall(name: string, input: object, pattern: RegExp): Promise<string> {
    const { isError, text } = await call(name, input);
    if (isError || !pattern.test(text)) throw new Error(`${name}: ${text}`);
    return text;
  }

  let sandbox: object = {};
  await world.check("mcp: create_sandbox", async () => {
    const text = await expectCall("create_sandbox", {}, /sandbox_id/);
    sandbox = { sandbox_id: /sandbox_id"?: ?"?([a-z0-9]+)/.exec(text)?.[1] };
    return text.split("\n", 1)[0]?.slice(0, 300);
  });
  for (const [name, input, pattern] of MAIN_JOB) {
    await world.check(`mcp: ${name}`, async () => {
      await expectCall(name, { ...sandbox, ...input }, pattern);
    });
  }
  await world.check("mcp: list_sandboxes", async () => {
    await expectCall("list_sandboxes", {}, /sandbox_id/);
  });
  await world.check("mcp: get_logs", async () =>
    (await expectCall("get_logs", sandbox, /Sandbox created[^]*logger=(?!sandboxes)/)).slice(-300),
  );
  await world.check("mcp: get_metrics", async () =>
    (await expectCall("get_metrics", sandbox, /memory_mb/)).slice(-300),
  );
  await world.check("mcp: get_sandbox reports what it cannot do", async () =>
    (await expectCall("get_sandbox", sandbox, /cannot[^]*memory in pauses/)).slice(-200),
  );
  await world.check("mcp: a process is written to, read and signalled", async () => {
    const begun = { cmd: "cat", keep_stdin_open: true, wait_seconds: 0 };
    const text = await expectCall("run_process", { ...sandbox, ...begun }, PROCESS_ID);
    const process = { ...sandbox, process_id: PROCESS_ID.exec(text)?.[1] };
    await expectCall("send_input", { ...process, data: "echoed\n" }, /./);
    await expectCall("get_process_output", { ...process, cursor: 0, wait_seconds: 5 }, /echoed/);
    await expectCall("send_signal", { ...process, signal: "SIGKILL" }, /./);
  });
  await world.check("mcp: watch_path", async () => {
    const text = await expectCall("watch_path", { ...sandbox, path: "/home/user" }, WATCHER_ID);
    const watcher = { ...sandbox, watcher_id: WATCHER_ID.exec(text)?.[1] };
    await expectCall("write_file", { ...sandbox, path: "/home/user/seen", content: "1" }, /./);
    await expectCall("watch_path", { ...watcher, wait_seconds: 5 }, /seen/);
    await expectCall("watch_path", { ...watcher, close: true }, /./);
  });
  await world.check("mcp: fork_sandbox", async () => {
    const text = await expectCall("fork_sandbox", { ...sandbox, count: 1 }, SANDBOX_ID);
    const ids = [...text.matchAll(new RegExp(SANDBOX_ID, "g"))].map(([, id]) => ({
      sandbox_id: id,
    }));
    const [fork] = ids.filter(({ sandbox_id: id }) => id !== Object(sandbox).sandbox_id);
    await expectCall("read_file", { ...fork, path: "/home/user/a.txt" }, /two/);
    await expectCall("kill_sandbox", { ...fork }, /./);
  });
  for (const [name, input, pattern] of OF_ALL) {
    await world.check(`mcp: ${name}`, async () => void (await expectCall(name, input, pattern)));
  }
  for (const [name, input, pattern] of REFUSED) {
    await world.check(`mcp: ${name} is refused with the reason`, async () => {
      const whole = name === "build_template" ? input : { ...sandbox, ...input };
      const { isError, text } = await call(name, whole);
      if (!isError || !pattern.test(text)) throw new Error(text);
      return text.slice(0, 200);
    });
  }
  await world.check("mcp: snapshot and delete_snapshot", async () => {
    const text = await expectCall("snapshot", sandbox, /snapshot_id/);
    const snapshot = { snapshot_id: /snapshot_id: (\S+)/.exec(text)?.[1] };
    await expectCall("delete_snapshot", snapshot, /./);
    return text.slice(0, 300);
  });
  for (const [name, input, pattern] of BY_IMAGES) {
    await world.check(`mcp: ${name} of a paused Pod`, async () => {
      await expectCall(name, { ...sandbox, ...input }, pattern);
    });
  }
  await world.check("mcp: kill_sandbox", async () => {
    await expectCall("kill_sandbox", sandbox, /./);
  });
  await world.check("mcp: every tool was called", async () => {
    const { tools } = await client.listTools();
    const left = tools.map(({ name }) => name).filter((name) => !called.has(name));
    if (left.length > 0) throw new Error(left.join(" "));
    return `${tools.length} tools`;
  });
}

const PROCESS_ID = /process_id"?: ?"?([A-Za-z0-9_-]+)/;
const WATCHER_ID = /watcher_id"?: ?"?([A-Za-z0-9_-]+)/;
const SANDBOX_ID = /sandbox_id"?: ?"?(i[a-z0-9]{20})/;

/** Of no sandbox. */
const OF_ALL: readonly (readonly [string, object, RegExp])[] = [
  ["list_templates", {}, /base/],
  ["get_template", { template: "base" }, /base/],
  ["list_snapshots", {}, /./],
];

/** What Pods, or the template base, do not have. */
const REFUSED: readonly (readonly [string, object, RegExp])[] = [
  ["build_template", { name: "own", steps: [{ kind: "run", command: "true" }] }, /template|build/],
  ["run_code", { code: "1 + 1" }, /code-interpreter|template/],
];

const MAIN_JOB: readonly (readonly [string, object, RegExp])[] = [
  ["write_file", { path: "/home/user/a.txt", content: "one\n" }, /a\.txt/],
  ["run_process", { cmd: "cat a.txt; id -un" }, /one[^]*user/],
  ["read_file", { path: "/home/user/a.txt" }, /one/],
  ["edit_file", { path: "/home/user/a.txt", old_string: "one", new_string: "two" }, /./],
  ["list_directory", { path: "/home/user" }, /a\.txt/],
  ["run_process", { cmd: "sleep 30", wait_seconds: 0 }, /process_id|pid/],
  ["list_processes", {}, /sleep/],
  ["make_directory", { path: "/home/user/dir" }, /dir/],
  ["write_file", { path: "/home/user/x1", content: "three\n" }, /x1/],
  ["write_file", { path: "/home/user/x2", content: "four\n" }, /x2/],
  [
    "compose_files",
    { sources: ["/home/user/x1", "/home/user/x2"], destination: "/home/user/x" },
    /x/,
  ],
  ["move_path", { source: "/home/user/x", destination: "/home/user/dir/x" }, /dir/],
  ["stat_path", { path: "/home/user/dir/x" }, /11/],
  ["search_files", { pattern: "four", path: "/home/user" }, /dir\/x/],
  ["remove_path", { path: "/home/user/dir" }, /./],
  ["download_url", { path: "/home/user/a.txt" }, /http/],
  ["get_sandbox_url", { port: 8080 }, /http/],
  ["set_timeout", { timeout_seconds: 600 }, /./],
];
