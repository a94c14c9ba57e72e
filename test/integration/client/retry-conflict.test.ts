/** What a client repeats, for how long, and what never comes to light of the keys that it sends. */

import { expect, test } from "vitest";
import type { Control } from "../../../src/client/control.ts";
import { createService } from "../../../src/client/service.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { answerJson, startRecorder, type Answer } from "../../support/network/recorder.ts";

const SANDBOX = { templateID: "t0", sandboxID: "i1", clientID: "c", envdVersion: "0.6.13" };
const SNAPSHOT = { snapshotID: "local/s:default", names: ["local/s:default"] };
const DETAIL = { ...SANDBOX_DETAIL, endAt: "2036-01-01T00:00:00Z" };
const KEY = "e2b_canary0123456789";

const { signal } = new AbortController();

async function startService(answer: Answer, startMs = 0) {
  const recorder = await startRecorder(answer);
  const clock = createFakeClock(startMs);
  const service = createService({ url: recorder.url, apiKey: KEY, clock });
  /** The outcome of work that waits by the clock. */
  async function pass<T>(work: Promise<T>): Promise<T> {
    const state = { isOver: false };
    const over = () => {
      state.isOver = true;
    };
    work.then(over, over);
    await expect
      .poll(
        async () => {
          await clock.advance(250);
          return state.isOver;
        },
        { interval: 1 },
      )
      .toBe(true);
    return work;
  }
  return {
    recorder,
    clock,
    control: service.control,
    pass,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

type Operation = (control: Control) => Promise<unknown>;

const OPERATIONS: readonly { name: string; call: Operation; body: unknown }[] = [
  {
    name: "connect",
    call: (control) => control.connect("i1", { timeout: 60 }, signal),
    body: SANDBOX,
  },
  { name: "pause", call: (control) => control.pause("i1", true, signal), body: null },
  { name: "fork", call: (c) => c.fork("i1", { count: 1, timeout: 60 }, signal), body: [] },
  { name: "set timeout", call: (control) => control.setTimeout("i1", 60, signal), body: null },
  { name: "snapshot", call: (c) => c.snapshot("i1", undefined, signal), body: SNAPSHOT },
];

/** Refuses changes as long as it is told, and knows the sandbox in a state. */
function inTransition(state: "running" | "paused", refusals: number, body: unknown): Answer {
  let left = refusals;
  return ({ method }, response) => {
    if (method === "GET") return answerJson(response, 200, { body: { ...DETAIL, state } });
    left -= 1;
    if (left < 0) return answerJson(response, 200, { body });
    return answerJson(response, 409, { body: { code: 409, message: "is being snapshotted" } });
  };
}

test.for(OPERATIONS)("$name waits for a sandbox that changes its state", async (row) => {
  await using started = await startService(inTransition("running", 3, row.body));
  await started.pass(row.call(started.control));
  const changes = started.recorder.requests.filter(({ method }) => method !== "GET");
  expect(changes).toHaveLength(4);
});

test.for(OPERATIONS)("$name gives up after ten seconds and says what to do", async (row) => {
  await using started = await startService(inTransition("running", 1_000, row.body));
  await expect(started.pass(row.call(started.control))).rejects.toMatchObject({
    code: "failed_precondition",
    hint: "It is changing its state: repeat this call in a few seconds.",
  });
  expect(started.clock.now()).toBeGreaterThanOrEqual(10_000);
  expect(started.clock.now()).toBeLessThan(13_000);
});

test("a paused sandbox refuses for another reason, which stands at once", async () => {
  await using started = await startService(inTransition("paused", 1_000, null));
  const { control, recorder } = started;
  expect(await control.pause("i1", true, signal)).toMatchObject({ wasRunning: false });
  const forking = control.fork("i1", { count: 1, timeout: 60 }, signal);
  await expect(forking).rejects.toMatchObject({ code: "failed_precondition", hint: undefined });
  expect(recorder.requests.filter(({ method }) => method === "POST")).toHaveLength(2);
});

test("a memory that does not come back is refused at once", async () => {
  const body = { code: 409, message: "lost", error_code: "sandbox_memory_not_restorable" };
  await using started = await startService((_, response) => answerJson(response, 409, { body }));
  const connecting = started.pass(started.control.connect("i1", { timeout: 60 }, signal));
  await expect(connecting).rejects.toMatchObject({ code: "failed_precondition", hint: undefined });
  expect(started.recorder.requests).toHaveLength(1);
});

test("a wait for a sandbox ends with the call", async () => {
  await using started = await startService(inTransition("running", 1_000, null));
  const controller = new AbortController();
  const pausing = started.control.pause("i1", true, controller.signal);
  await expect.poll(() => started.recorder.requests.length).toBe(2);
  controller.abort();
  await expect(pausing).rejects.toMatchObject({ code: "canceled" });
});

test.for<{ name: string; call: Operation; times: number }>([
  { name: "create", call: (c) => c.create({ templateID: "base" }, signal), times: 1 },
  { name: "snapshot", call: (c) => c.snapshot("i1", undefined, signal), times: 1 },
  { name: "fork", call: (c) => c.fork("i1", { count: 1, timeout: 9 }, signal), times: 1 },
  { name: "kill", call: (c) => c.kill("i1", signal), times: 3 },
  { name: "get", call: (c) => c.get("i1", signal), times: 3 },
  { name: "pause", call: (c) => c.pause("i1", true, signal), times: 3 },
])("$name is sent $times times to a service that is busy", async ({ call, times }) => {
  await using started = await startService((_, response) =>
    answerJson(response, 503, { body: { code: 503, message: "busy" } }),
  );
  await expect(started.pass(call(started.control))).rejects.toMatchObject({ code: "unavailable" });
  expect(started.recorder.requests).toHaveLength(times);
});

test.for([0, 2, -2])(
  "a date after which to come back is waited for, three times at most, with our clock %d h ahead",
  async (hours) => {
    const startMs = Date.parse("2026-01-01T00:00:00Z") + hours * 3_600_000;
    await using started = await startService((_, response) => {
      const date = "Thu, 01 Jan 2026 00:00:00 GMT";
      const headers = { date, "retry-after": "Thu, 01 Jan 2026 00:00:02 GMT" };
      answerJson(response, 429, { body: { code: 429, message: "slow" }, headers });
    }, startMs);
    const { control, recorder, clock } = started;
    await expect(started.pass(control.get("i1", signal))).rejects.toMatchObject({
      code: "resource_exhausted",
      hint: "Rate limited: wait 2 s.",
    });
    expect(recorder.requests).toHaveLength(4);
    expect(clock.now() - startMs).toBeGreaterThanOrEqual(6_000);
  },
);

test("a limit without a time to come back stands at once", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 429, { body: { code: 429, message: "20 sandboxes" } }),
  );
  const creating = started.control.create({ templateID: "base" }, signal);
  await expect(creating).rejects.toMatchObject({ code: "resource_exhausted", hint: undefined });
  expect(started.recorder.requests).toHaveLength(1);
});

test("the generation that a service knows is asked first from then on", async () => {
  await using started = await startService(({ url }, response) => {
    const isKnown = url.startsWith("/v2/");
    const body = isKnown ? SANDBOX : { code: 404, message: "no such path" };
    answerJson(response, isKnown ? 201 : 404, { body });
  });
  const { control, recorder } = started;
  for (let count = 0; count < 2; count += 1) {
    await control.create({ templateID: "base" }, signal);
    await control.connect("i1", { timeout: 60 }, signal);
  }
  expect(recorder.requests.map(({ url }) => url)).toEqual([
    "/sandboxes",
    "/v2/sandboxes",
    "/sandboxes/i1/connect",
    "/v2/sandboxes/i1/connect",
    "/v2/sandboxes",
    "/v2/sandboxes/i1/connect",
  ]);
});

test.for([
  { status: 401, code: "unauthenticated", told: 'the service answered 401 "bad key [redacted]"' },
  { status: 302, code: "internal", told: 'the service answered 302 "bad key [redacted]"' },
  { status: 200, code: "internal", told: "unexpected reply: 200 with bad key [redacted]" },
])("a key that a refusal with $status quotes does not come to light", async (row) => {
  await using started = await startService(({ headers }, response) =>
    answerJson(response, row.status, {
      body: { code: 401, message: `bad key ${String(headers["x-api-key"])}` },
    }),
  );
  const { code } = row;
  await expect(started.control.get("i1", signal)).rejects.toMatchObject({
    code,
    message: `get i1: ${row.told}`,
    hint: expect.not.stringContaining(KEY),
  });
  expect(started.recorder.requests[0]?.headers["x-api-key"]).toBe(KEY);
});
