/** Streams of a process from a service that falls silent: the reader learns it within a bound. */

import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSystemClock, type Clock } from "../../../src/common/clock.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { answerJson, startRecorder } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";

const START = { start: { pid: 7 } };
const KEEPALIVE = { keepalive: {} };
const END = { end: { exitCode: 3, exited: true, status: "exit status 3" } };
const REQUEST = { cmd: "sleep", args: [], env: {}, hasStdin: false };

/** A process whose stream has these events and then neither an end nor anything else. */
async function startStream(
  events: readonly object[],
  clock: Clock = createFakeClock(),
  timeoutMs?: number,
) {
  const control = { state: "running", asked: 0 };
  const { promise: asked, resolve } = Promise.withResolvers<ServerResponse>();
  const recorder = await startRecorder((request, response) => {
    if (request.url.startsWith("/sandboxes/")) {
      control.asked += 1;
      return answerJson(response, 200, { body: { ...SANDBOX_DETAIL, state: control.state } });
    }
    for (const event of events) {
      if (!response.headersSent) {
        response.writeHead(200, { "content-type": "application/connect+json" });
      }
      response.write(envelope(JSON.stringify({ event })));
    }
    return resolve(response);
  });
  const address = { url: recorder.url, sandboxUrl: recorder.url, domain: "e2b.app" };
  const service = createService({ ...address, apiKey: "secret-key", clock });
  const { signal } = new AbortController();
  const sandbox = await service.attach("i1", signal);
  const stream = sandbox.process.start(REQUEST, { signal, timeoutMs });
  return {
    stream,
    asked,
    control,
    async [Symbol.asyncDispose]() {
      await stream.return();
      await service[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

/** Moves the clock on until something is so; its own calls take time of a real clock. */
async function passTime(clock: FakeClock, isDone: () => boolean): Promise<void> {
  await expect
    .poll(
      async () => {
        await clock.advance(5_000);
        return isDone();
      },
      { interval: 5 },
    )
    .toBe(true);
}

/** What an iteration that must fail throws. */
function faultOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

test("a start without a reply fails by the time at which services give up", async () => {
  const clock = createFakeClock();
  await using started = await startStream([], clock);
  const first = started.stream.next();
  const failed = faultOf(first);
  await started.asked;
  await clock.advance(80_000);
  expect(await failed).toMatchObject({
    code: "deadline_exceeded",
    message: "start process: no reply",
  });
});

test("a service that sends keepalives in the place of a start is given up by the same time", async () => {
  const clock = createFakeClock();
  await using started = await startStream([KEEPALIVE], clock);
  let isOver = false;
  const failed = faultOf(started.stream.next()).finally(() => (isOver = true));
  const response = await started.asked;
  await passTime(clock, () => {
    response.write(envelope(JSON.stringify({ event: KEEPALIVE })));
    return isOver;
  });
  expect(await failed).toMatchObject({
    code: "deadline_exceeded",
    message: "start process: no reply",
  });
});

test("a service that sends keepalives and stops is unavailable", async () => {
  const clock = createFakeClock();
  await using started = await startStream([START, KEEPALIVE], clock);
  expect((await started.stream.next()).value).toEqual({ type: "start", pid: 7 });
  const failed = faultOf(started.stream.next());
  await started.asked;
  await passTime(clock, () => started.control.asked > 1 + 1);
  expect(await failed).toMatchObject({
    code: "unavailable",
    message: "start process: no keepalive for 150 s",
  });
});

test("a paused sandbox is silent for as long as it is, whatever its processes' time limits", async () => {
  const clock = createFakeClock();
  await using started = await startStream([START, KEEPALIVE], clock, 1_000);
  const { control, stream } = started;
  await stream.next();
  const next = stream.next();
  const response = await started.asked;
  control.state = "paused";
  await passTime(clock, () => control.asked > 1 + 5);
  control.state = "running";
  await passTime(clock, () => control.asked > 1 + 6);
  response.end(
    Buffer.concat([envelope(JSON.stringify({ event: END })), envelope("{}", { flags: 2 })]),
  );
  expect((await next).value).toMatchObject({ type: "end", exitCode: 3 });
});

test("a service without keepalives may be silent", async () => {
  const clock = createFakeClock();
  await using started = await startStream([START], clock);
  await started.stream.next();
  const next = started.stream.next();
  const response = await started.asked;
  await clock.advance(10 * 60_000);
  response.end(
    Buffer.concat([envelope(JSON.stringify({ event: END })), envelope("{}", { flags: 2 })]),
  );
  expect((await next).value).toMatchObject({ type: "end", exitCode: 3 });
});

test("a time limit that passes without a word is no proof of an end", async () => {
  const clock = createFakeClock();
  await using started = await startStream([START], clock, 1_000);
  await started.stream.next();
  const failed = faultOf(started.stream.next());
  await started.asked;
  await passTime(clock, () => started.control.asked > 1 + 1);
  expect(await failed).toMatchObject({ code: "unavailable" });
});

test("a stream that stays open after the end of its process is left", async () => {
  await using started = await startStream([START, END], createSystemClock());
  await started.stream.next();
  expect((await started.stream.next()).value).toMatchObject({ type: "end", exitCode: 3 });
  expect((await started.stream.next()).done).toBe(true);
});

test("an end that is told again and again starts one timer", async () => {
  const clock = createSystemClock();
  const waits: number[] = [];
  const sleep: Clock["sleep"] = async (ms, signal) => {
    waits.push(ms);
    await clock.sleep(ms, signal);
  };
  await using started = await startStream([START, ...Array.from({ length: 200 }, () => END)], {
    ...clock,
    sleep,
  });
  let ends = 0;
  for await (const { type } of started.stream) if (type === "end") ends += 1;
  expect(ends).toBeGreaterThan(1);
  expect(waits.filter((ms) => ms === 1_000)).toHaveLength(1);
});

test("a stream that ends without its last message or without an end is no exit", async () => {
  await using started = await startStream([START]);
  await started.stream.next();
  const failed = faultOf(started.stream.next());
  (await started.asked).end();
  expect(await failed).toMatchObject({ code: "unavailable" });
});
