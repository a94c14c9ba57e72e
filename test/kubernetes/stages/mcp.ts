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

  async function call(name: string, input: object): Promise<{ isError: boolean; text: string }> {
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
}

const MAIN_JOB: readonly (readonly [string, object, RegExp])[] = [
  ["write_file", { path: "/home/user/a.txt", content: "one\n" }, /a\.txt/],
  ["run_process", { cmd: "cat a.txt; id -un" }, /one[^]*user/],
  ["read_file", { path: "/home/user/a.txt" }, /one/],
  ["edit_file", { path: "/home/user/a.txt", old_string: "one", new_string: "two" }, /./],
  ["list_directory", { path: "/home/user" }, /a\.txt/],
  ["run_process", { cmd: "sleep 30", wait_seconds: 0 }, /process_id|pid/],
  ["list_processes", {}, /sleep/],
  ["set_timeout", { timeout_seconds: 600 }, /./],
];
