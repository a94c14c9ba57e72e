/** The end of a server: its sandboxes are killed, whatever else does not end. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { answerJson, startRecorder } from "../../support/network/recorder.ts";

async function startServer() {
  const clock = createFakeClock();
  const recorder = await startRecorder((_, response) => answerJson(response, 204, { body: "" }));
  const service = createService({ url: recorder.url, apiKey: "secret-key", clock });
  const log = createSilentLog();
  const state = startMcpState({ service: () => service, log, clock, onExit: () => "kill" });
  return {
    clock,
    recorder,
    state,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

test("a task that does not end delays neither the kills nor the end for long", async () => {
  await using server = await startServer();
  const { clock, recorder, state } = server;
  state.adopt("i1");
  state.track(new Promise(() => undefined));
  const ended = state[Symbol.asyncDispose]();
  await expect.poll(() => recorder.requests.map(({ method }) => method)).toEqual(["DELETE"]);
  await clock.advance(2_000);
  await ended;
  expect(state.made.size).toBe(0);
});

test("a task that fails, and one that begins with the end, are waited for", async () => {
  await using server = await startServer();
  const { state } = server;
  state.track(Promise.reject(new Error("broken")));
  const { promise, resolve } = Promise.withResolvers<void>();
  state.signal.addEventListener("abort", () => {
    setImmediate(() => {
      state.adopt("i2");
      resolve();
    });
    queueMicrotask(() => state.track(promise));
  });
  await state[Symbol.asyncDispose]();
  expect(state.made.size).toBe(0);
});
