/** Calls with arguments as models send them, through a real client. */

import { expect, test } from "vitest";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

test("a command with empty and missing options runs as if they were not there", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const { text } = await world.call("run_process", {
    sandbox_id,
    cmd: "echo $A $B; cat",
    args: [],
    cwd: "",
    user: null,
    env: { A: "one", B: 2 },
    stdin: "",
    timeout_seconds: null,
    wait_seconds: null,
  });
  expect(text).toMatch(/^exit_code: 0 [^]*--- stdout\none 2\n--- end/);
});

test("a watch starts by its path though the other field is empty, and both are refused", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const watch = { sandbox_id, path: world.folder, wait_seconds: 0 };
  const { text } = await world.call("watch_path", { ...watch, watcher_id: "" });
  expect(text).toMatch(/^watcher_id: \S+ \| no change/);
  const both = await world.call("watch_path", { ...watch, watcher_id: "w1" });
  expect(both.text).toMatch(/^invalid_argument: give either path or watcher_id\./);
  const neither = await world.call("watch_path", { sandbox_id, path: null });
  expect(neither.text).toMatch(/^invalid_argument: give either path or watcher_id\./);
});

test("what is required may not be null, and the refusal names it", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const { isError, text } = await world.call("run_process", { sandbox_id, cmd: null });
  expect([isError, text]).toEqual([true, expect.stringContaining("cmd: ")]);
});

test("a path with a NUL character is refused before anything is done, also for a link", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const path = "a\0b";
  const calls = [
    await world.call("download_url", { sandbox_id, path }),
    await world.call("write_file", { sandbox_id, path, content: "x" }),
    await world.call("compose_files", { sandbox_id, sources: ["a", path], destination: "c" }),
  ];
  for (const { isError, text } of calls) {
    expect([isError, text]).toEqual([
      true,
      expect.stringMatching(/: (path|sources\.1): no path can hold a NUL character$/),
    ]);
  }
});
