/** A host that asks for progress hears of every call that takes long, also of one that says nothing. */

import { expect, test } from "vitest";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";

test.for([
  { tool: "create_sandbox", input: { sandbox_id: undefined } },
  { tool: "connect_sandbox", input: {} },
  { tool: "fork_sandbox", input: {} },
  { tool: "pause_sandbox", input: {} },
  { tool: "snapshot", input: {} },
  { tool: "kill_sandbox", input: {} },
  { tool: "build_template", input: { sandbox_id: undefined, name: "mine" } },
  { tool: "run_process", input: { cmd: "true" } },
  { tool: "list_directory", input: {} },
])("$tool tells that it waits for a service that is slow", async ({ tool, input }) => {
  const clock = createFakeClock(Date.now());
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  await using remote = await startForeignHost(() => ask(), clock);
  const cancelling = new AbortController();
  const { promise: told, resolve: tell } = Promise.withResolvers<unknown>();
  const { signal } = cancelling;
  const calling = remote.call(tool, input, { signal, onprogress: tell }).catch(String);
  await asked;
  await clock.advance(10_000);
  expect(await told).toMatchObject({ progress: 0, message: "still running" });
  cancelling.abort();
  expect(await calling).toContain("abort");
});

test("send_input ends in time where the sandbox is silent before the input", async () => {
  const clock = createFakeClock(Date.now());
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  await using remote = await startForeignHost(() => ask(), clock);
  const input = { process_id: "p_12", data: "x\n", wait_seconds: 5 };
  const calling = remote.call("send_input", input);
  await asked;
  await clock.advance(40_000);
  const { text } = await calling;
  expect(text).toMatch(/^deadline_exceeded: .*nothing was sent to p_12\. Call send_input again\./);
  const paths = remote.recorder.requests.map(({ url }) => url);
  expect(paths.filter((path) => path.endsWith("/SendInput"))).toEqual([]);
});
