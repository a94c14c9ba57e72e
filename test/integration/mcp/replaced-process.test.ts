/**
 * A process of before a pause without memory, whose pid another program has by now: a call that names
 * it must not reach that program.
 */

import { join } from "node:path";
import { expect, test } from "vitest";
import type { Sandbox } from "../../../src/client/envd.ts";
import type { Service } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { startMcpHost } from "../../support/mcp/mcp-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

const LIFE_SECONDS = 300;
const ENDED = "status: ended while no server watched it";

/** A server whose sandboxes list their processes by another command, once they are told so. */
async function startWorld() {
  const stack = new AsyncDisposableStack();
  const world = stack.use(await startMcpWorld());
  let listedAs: string | undefined;
  const wrap = ({ process, ...sandbox }: Sandbox): Sandbox => ({
    ...sandbox,
    process: {
      ...process,
      list: async (signal) => {
        const listed = await process.list(signal);
        return listed.map(({ pid, cmd }) => ({ pid, cmd: listedAs ?? cmd }));
      },
    },
  });
  const service: Service = {
    ...world.service,
    attach: async (id, signal) => wrap(await world.service.attach(id, signal)),
  };
  const spoolFolder = join(world.test.home, "spool");
  const log = createSilentLog();
  const state = startMcpState({ service: () => service, log, spoolFolder, onExit: () => "leave" });
  stack.use(state);
  const host = stack.use(await startMcpHost(state));
  const sandboxId = await world.createSandbox();
  const call = async (name: string, input: object = {}): Promise<string> => {
    const named = { sandbox_id: sandboxId, ...input };
    const reply = await host.client.callTool({ name, arguments: named });
    return JSON.stringify(reply["content"]);
  };
  const started = await call("run_process", { cmd: "cat", keep_stdin_open: true, wait_seconds: 0 });
  const process = { process_id: /p_\d+/.exec(started)?.[0] };
  await call("pause_sandbox");
  // The server looks whether the sandbox runs before it connects again.
  await expect.poll(() => call("get_process_output", process)).toContain("connection lost");
  // Not by connect_sandbox, whose server looks for the process by itself.
  await world.service.control.connect(
    sandboxId,
    { timeout: LIFE_SECONDS },
    new AbortController().signal,
  );
  return {
    call,
    process,
    isThere: async () => (await call("list_processes")).includes(String(process.process_id)),
    listAs: (command: string | undefined) => (listedAs = command),
    [Symbol.asyncDispose]: async () => stack.disposeAsync(),
  };
}

test.for([
  { tool: "send_signal", input: { signal: "SIGKILL" }, said: `had ended already | ${ENDED}` },
  { tool: "send_input", input: { data: "x" }, said: "has ended (" + ENDED },
  { tool: "get_process_output", input: {}, said: ENDED },
])(
  "$tool does not reach the program that has the pid of another",
  async ({ tool, input, said }) => {
    await using world = await startWorld();
    world.listAs("another");
    expect(await world.call(tool, { ...world.process, ...input })).toContain(said);
    expect(await world.isThere()).toBe(true);
    // It is known from then on.
    expect(await world.call("get_process_output", world.process)).toContain(ENDED);
  },
);

test.for([
  { listing: "its command", listedAs: undefined },
  { listing: "no command", listedAs: "" },
  { listing: "its program alone", listedAs: "/bin/bash" },
  { listing: "a command before it", listedAs: "wrapper /bin/bash -l -c cat" },
])("a process that lives on after a pause is reached: $listing", async ({ listedAs }) => {
  await using world = await startWorld();
  world.listAs(listedAs);
  const sent = await world.call("send_signal", { ...world.process, signal: "SIGKILL" });
  expect(sent).toContain("SIGKILL sent to");
  await expect.poll(() => world.isThere()).toBe(false);
});
