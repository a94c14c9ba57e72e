/** A call that waits for a process which another server watches, when that server ends. */

import { expect, test } from "vitest";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { factOf, startServer, type Server } from "../../support/mcp/mcp-server.ts";

/** A process that answers each line, watched by a first server that is about to end. */
async function startWatched(first: Server, sandboxId: string) {
  const started = await first.ask("run_process", {
    sandbox_id: sandboxId,
    cmd: "/bin/sh",
    args: ["-c", "echo first; while read line; do echo got $line; done"],
    wait_seconds: 0,
    keep_stdin_open: true,
  });
  const process = { sandbox_id: sandboxId, process_id: factOf(started, /process_id: (p_[0-9]+)/) };
  await expect
    .poll(async () => first.ask("get_process_output", process))
    .toContain("--- stdout\nfirst\n");
  return process;
}

test("a call that waits for output goes on under its own server", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const first = await startServer(world);
  await using second = await startServer(world);
  const process = await startWatched(first, id);
  const waiting = second.ask("get_process_output", { ...process, cursor: 6, wait_seconds: 20 });
  await first[Symbol.asyncDispose]();
  expect(await waiting).toMatch(/^status: running \|[^]*--- stdout\n--- \[… its stream was broken/);
  const input = { ...process, data: "x\n", wait_seconds: 20 };
  expect(await second.ask("send_input", input)).toContain("--- stdout\ngot x\n--- end");
});

test("a wait for what follows an input goes on under its own server", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const first = await startServer(world);
  await using second = await startServer(world);
  const process = await startWatched(first, id);
  const waiting = second.ask("send_input", { ...process, data: "", wait_seconds: 20 });
  await first[Symbol.asyncDispose]();
  const pid = Number(process.process_id.slice(2));
  await expect.poll(() => second.state.captures.find(id, pid)).toBeDefined();
  await second.ask("send_input", { ...process, data: "x\n" });
  const reply = await waiting;
  expect(reply).toContain("status: running");
  expect(reply).toContain("its stream was broken");
  expect(reply).toContain("\ngot x\n");
});
