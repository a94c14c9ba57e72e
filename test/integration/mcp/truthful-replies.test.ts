/** Replies that state what is left, what is over, and what helps, for calls that came late or wrong. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { startMcpHost } from "../../support/mcp/mcp-host.ts";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { answerJson } from "../../support/network/recorder.ts";

async function startSandbox() {
  const world = await startMcpWorld();
  const id = await world.createSandbox();
  const call = (tool: string, input: object) => world.call(tool, { sandbox_id: id, ...input });
  const shell = (command: string) =>
    call("run_process", { cmd: "/bin/sh", args: ["-c", command], cwd: world.folder });
  return { world, id, call, shell, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

function watcherOf(text: string): string {
  return /watcher_id: (\w+)/.exec(text)?.[1] ?? "";
}

test("a watcher with changes left does not end before they are taken", async () => {
  await using sandbox = await startSandbox();
  const { call, shell, world } = sandbox;
  const started = await call("watch_path", { path: world.folder, wait_seconds: 0 });
  const watcher = { watcher_id: watcherOf(started.text), close: true };
  await shell("for i in $(seq 600); do mkdir d$i; done");
  const first = (await call("watch_path", watcher)).text;
  expect(first).toMatch(/\| 500 changes \| 100 more: .*\| watcher not ended: /);
  expect((await call("watch_path", watcher)).text).toMatch(/\| 100 changes \| watcher ended \|/);
  expect((await call("watch_path", watcher)).text).toMatch(/^not_found: /);
});

test("a watcher of a directory that was moved says so in every reply", async () => {
  await using sandbox = await startSandbox();
  const { call, shell, world } = sandbox;
  await shell("mkdir d");
  const started = await call("watch_path", { path: `${world.folder}/d`, wait_seconds: 0 });
  const watcher = { watcher_id: watcherOf(started.text) };
  await shell("mv d e; mkdir d; touch d/new");
  expect((await call("watch_path", watcher)).text).toMatch(/itself was moved[^]*\nrename \.\n/);
  expect((await call("watch_path", { ...watcher, wait_seconds: 0 })).text).toMatch(
    /no change \| the directory itself was moved or removed: /,
  );
});

async function startOther(world: McpWorld) {
  const state = startMcpState({
    service: () => world.service,
    log: createSilentLog(),
    spoolFolder: join(world.test.home, "spool"),
    onExit: () => "leave",
  });
  const host = await startMcpHost(state);
  return {
    host,
    async [Symbol.asyncDispose]() {
      await host[Symbol.asyncDispose]();
      await state[Symbol.asyncDispose]();
    },
  };
}

test("a signal to a process that ended under another server is told its end", async () => {
  await using sandbox = await startSandbox();
  const { world, id, shell } = sandbox;
  const processId = /process_id: (p_\d+)/.exec((await shell("exit 3")).text)?.[1];
  await using other = await startOther(world);
  const signalled = async () => {
    const input = { sandbox_id: id, process_id: processId };
    return (await other.host.client.callTool({ name: "send_signal", arguments: input }))["content"];
  };
  await expect
    .poll(signalled)
    .toEqual([{ type: "text", text: `${processId} had ended already | exit_code: 3` }]);
});

test.for(["SIGTERM", "SIGKILL"])("%s to a process whose child holds its output", async (signal) => {
  await using sandbox = await startSandbox();
  const { call, shell } = sandbox;
  const script = { cmd: "/bin/sh", args: ["-c", "sleep 60 & echo child $!"] };
  const started = await call("run_process", { ...script, wait_seconds: 0 });
  const [, pid] = /process_id: p_(\d+)/.exec(started.text) ?? [];
  const process = { process_id: `p_${pid}` };
  await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
  expect((await call("send_signal", { ...process, signal })).text).toMatch(
    new RegExp(
      `^p_${pid} itself had ended already \\| a process that it started still holds its output; ` +
        "end it with pkill in run_process \\| sandbox expires",
    ),
  );
  const output = async () => (await call("get_process_output", process)).text;
  const child = /child (\d+)/.exec(await output())?.[1];
  await shell(`kill ${child}`);
  await expect.poll(output).toMatch(/^exit_code: 0 /);
});

test("a call that a pause cuts off is not to be repeated", async () => {
  await using sandbox = await startSandbox();
  const { call, id } = sandbox;
  const running = call("run_process", { cmd: "sleep", args: ["60"], wait_seconds: 20 });
  await expect
    .poll(async () => (await call("list_processes", {})).fields["processes"])
    .toHaveLength(1);
  await call("pause_sandbox", {});
  expect((await running).text).toMatch(
    new RegExp(
      `^failed_precondition: sandbox ${id} is paused\\. Call connect_sandbox, then follow the ` +
        "process with get_process_output\\.\nstatus: connection lost .* process_id: p_",
    ),
  );
});

test("a process that ended with a pause without memory is not waited for", async () => {
  await using sandbox = await startSandbox();
  const { call } = sandbox;
  const started = await call("run_process", { cmd: "sleep", args: ["60"], wait_seconds: 0 });
  const process = { process_id: /process_id: (p_\d+)/.exec(started.text)?.[1] };
  await call("pause_sandbox", { keep_memory: false });
  const output = async () => (await call("get_process_output", process)).text;
  await expect.poll(output).toMatch(/^status: connection lost .* is paused\. Call connect_sandbox/);
  await call("connect_sandbox", {});
  expect(await output()).toMatch(/^status: ended while no server watched it; .* \| duration: /);
});

test.for([
  { keep_memory: true, told: /^SIGTERM sent to p_\d+ \| exit_code: / },
  { keep_memory: false, told: /^p_\d+ had ended already \| status: ended while no server/ },
])("a signal after a pause is told with what it did: $keep_memory", async (row) => {
  await using sandbox = await startSandbox();
  const { call } = sandbox;
  const started = await call("run_process", { cmd: "sleep", args: ["60"], wait_seconds: 0 });
  const process = { process_id: /process_id: (p_\d+)/.exec(started.text)?.[1] };
  await call("pause_sandbox", { keep_memory: row.keep_memory });
  await expect
    .poll(async () => (await call("get_process_output", process)).text)
    .toMatch(/^status: connection lost .* is paused/);
  await call("connect_sandbox", {});
  expect((await call("send_signal", process)).text).toMatch(row.told);
});

test("the output of a process whose sandbox is gone says that and the next step", async () => {
  await using sandbox = await startSandbox();
  const { call } = sandbox;
  const started = await call("run_process", { cmd: "sleep", args: ["60"], wait_seconds: 0 });
  const process = { process_id: /process_id: (p_\d+)/.exec(started.text)?.[1] };
  const waiting = call("get_process_output", { ...process, wait_seconds: 20 });
  await call("kill_sandbox", {});
  expect((await waiting).text).toMatch(/^status: connection lost .*does not exist.*create_sandbox/);
});

test("a directory with too many entries names what helps, and its tree has the rest", async () => {
  await using sandbox = await startSandbox();
  const { call, shell, world } = sandbox;
  const many = `${world.folder}/many`;
  await shell("mkdir many next && touch next/file && cd many && seq 20001 | xargs touch");
  const list = async (path: string, depth: number) =>
    (await call("list_directory", { path, depth })).text;
  const refusal =
    /^resource_exhausted: .*"more than 20000 entries"\. No listing .* Run ls -A with run_process: .*_output/;
  // Under load the call above ends before its process.
  await expect.poll(async () => list(many, 1)).toMatch(refusal);
  // Its own entries are too many at any depth.
  expect(await list(many, 2)).toMatch(refusal);
  const tree = await list(world.folder, 2);
  expect(tree).toContain(`too large to be shown with all that is below: ${many}; list each by its`);
  expect(tree).toMatch(/d .*\/many\nd .*\/next\n- .*\/next\/file\n/);
  const listed = await call("run_process", { cmd: "ls", args: ["-A", many] });
  const process_id = /process_id: (p_\d+)/.exec(listed.text)?.[1];
  const page = await call("get_process_output", { process_id, cursor: 100_000 });
  expect(page.text).toContain("\n9999\n--- end");
});

test("a link that leads nowhere is told as one, without a target", async () => {
  await using sandbox = await startSandbox();
  const { call, shell, world } = sandbox;
  await shell("ln -s absent broken; ln -s round round; mkfifo pipe; ln -s pipe good");
  const { fields } = await call("stat_path", { path: `${world.folder}/broken` });
  expect(fields).toMatchObject({ type: "symlink", permissions: "Lrwxrwxrwx" });
  expect(fields).not.toHaveProperty("symlink_target");
  const { text } = await call("list_directory", { path: world.folder });
  const found = [...text.matchAll(/^(.) \S+ \S+ \S+\/(broken|round|pipe|good)\b(.*)$/gm)];
  expect(found.map(([, ...parts]) => parts.join(" "))).toEqual([
    "l broken  (broken link)",
    expect.stringMatching(/^\? good  -> \S+\/pipe$/),
    "? pipe ",
    "l round  (broken link)",
  ]);
  const search = { path: `${world.folder}/broken`, pattern: "a" };
  expect((await call("search_files", search)).text).toMatch(
    /^invalid_argument: \S+\/broken is a link that leads nowhere\. Call list_directory/,
  );
});

test("a pipe is refused by a search at once", async () => {
  await using sandbox = await startSandbox();
  const { call, shell, world } = sandbox;
  await shell("mkfifo pipe");
  expect((await call("search_files", { path: `${world.folder}/pipe`, pattern: "a" })).text).toBe(
    `invalid_argument: ${world.folder}/pipe is neither a file nor a directory. ` +
      "Read a pipe or device with run_process.",
  );
});

test.for(["stat_path", "read_file", "list_directory", "make_directory"])(
  "%s of a name that is too long is no internal fault",
  async (tool) => {
    await using sandbox = await startSandbox();
    const path = `${sandbox.world.folder}/${"y".repeat(300)}`;
    expect((await sandbox.call(tool, { path })).text).toMatch(
      /^invalid_argument: .*file name too long"\. Correct the path/,
    );
  },
);

test("half a surrogate pair is refused, not replaced", async () => {
  await using sandbox = await startSandbox();
  const { call, world } = sandbox;
  const path = `${world.folder}/a`;
  expect((await call("write_file", { path, content: "a\uD83D" })).text).toContain(
    "content: half a surrogate pair",
  );
  expect((await call("write_file", { path, content: "a\u{1F600}" })).text).toMatch(
    /^wrote 5 bytes/,
  );
});

test("starts at once count against the limit of processes", async () => {
  await using sandbox = await startSandbox();
  const start = { cmd: "sleep", args: ["60"], wait_seconds: 0 };
  const replies = await Promise.all(
    Array.from({ length: 131 }, () => sandbox.call("run_process", start)),
  );
  expect(replies.filter(({ isError }) => isError)).toHaveLength(3);
});

test("a sandbox that was paused during a call and runs again is no silent service", async () => {
  await using remote = await startForeignHost((_, response) => {
    answerJson(response, 502, { body: { code: 502, message: "The sandbox was not found" } });
  });
  const { isError, text } = await remote.call("make_directory", { path: "/x" });
  expect({ isError, text }).toEqual({
    isError: true,
    text: expect.stringMatching(/^unavailable: .* The service reports that the sandbox is running/),
  });
});

test("output that is not kept is told from the cursor on: its beginning is kept", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const cmd = "head -c 140000000 /dev/zero | tr '\\0' 'x'";
  const { text } = await world.call("run_process", { sandbox_id, cmd, wait_seconds: 50 });
  const [, process_id] = /process_id: (p_[0-9]+)/.exec(text) ?? [];
  const read = async (cursor: number) => {
    const input = { sandbox_id, process_id, cursor, max_bytes: 1_000 };
    return (await world.call("get_process_output", input)).text;
  };
  expect(await read(34_000_000)).toMatch(/ \| output from this cursor to [0-9]+ was discarded \| /);
  expect(await read(1_000_000)).toMatch(/ \| next_cursor: 1001000 \| [0-9]+ bytes more \| stdout /);
});

test("a path that cannot be written is not taken for that of a directory", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const write = async (path: string) =>
    (await world.call("write_file", { sandbox_id, path, content: "" })).text;
  const hint = "Give the whole path of a file.";
  expect(await write("~root/x")).toMatch(new RegExp(`^invalid_argument: .*home dir". ${hint}`));
  expect(await write("/tmp")).toMatch(new RegExp(`^invalid_argument: .*directory.*". ${hint}`));
});

test.for([
  { tool: "stat_path", input: { path: "/" } },
  { tool: "write_file", input: { path: "a", content: "b" } },
  { tool: "run_process", input: { cmd: "true" } },
])("a daemon that refuses $tool is not told as a refused API key", async ({ tool, input }) => {
  await using remote = await startForeignHost((_, response) => {
    answerJson(response, 401, { body: { code: "unauthenticated", message: "unauthorized" } });
  });
  const { isError, text } = await remote.call(tool, input);
  expect({ isError, text }).toEqual({
    isError: true,
    text: expect.stringMatching(
      /^unauthenticated: .* The sandbox refused its access token, or has no default user/,
    ),
  });
  expect(text).not.toContain("E2B_API_KEY");
});
