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

test.for([
  {
    tool: "send_input",
    input: { data: "x\n", wait_seconds: 5 },
    outcome: "nothing was sent to p_12",
  },
  { tool: "send_signal", input: {}, outcome: "whether p_12 got SIGTERM is not known" },
  { tool: "get_process_output", input: {}, outcome: "nothing is known of p_12" },
])("$tool ends in time where the sandbox is silent", async ({ tool, input, outcome }) => {
  const clock = createFakeClock(Date.now());
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  await using remote = await startForeignHost(() => ask(), clock);
  const calling = remote.call(tool, { process_id: "p_12", ...input });
  await asked;
  await clock.advance(40_000);
  const { text } = await calling;
  expect(text).toContain(
    `deadline_exceeded: the sandbox does not answer: ${outcome}. Call ${tool}`,
  );
  const paths = remote.recorder.requests.map(({ url }) => url);
  expect(paths.filter((path) => path.endsWith("/SendInput"))).toEqual([]);
});
