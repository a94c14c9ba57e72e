/** A create with an `Idempotency-Key`: sent again, it is answered and not done again. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { createdVolumeSchema, sandboxSchema } from "../../src/wire/control.ts";
import { atStep } from "../support/at-step.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startTestService, type TestService } from "../support/service.ts";

const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ maxSandboxes: 50 });
});
afterAll(() => service[Symbol.asyncDispose]());

function create(key: string, body: object = {}, more: Readonly<Record<string, string>> = {}) {
  return service.call({
    method: "POST",
    path: "/v2/sandboxes",
    body: { templateID: "base", ...body },
    headers: { "content-type": "application/json", "idempotency-key": key, ...more },
  });
}

const amount = () => service.embedded.sandboxes.count().running;

test("the same key and body get the same reply, also when the sandbox is gone", async () => {
  const before = amount();
  const first = await create("same", { metadata: { a: "b" } });
  expect(first.status).toBe(201);
  const again = await create("same", { metadata: { a: "b" } });
  expect([again.status, again.body]).toEqual([201, first.body]);
  expect(amount()).toBe(before + 1);
  await service.embedded.sandboxes.kill(sandboxSchema.parse(first.body).sandboxID);
  const later = await create("same", { metadata: { a: "b" } });
  expect([later.status, later.body]).toEqual([201, first.body]);
  expect(amount()).toBe(before);
});

test("the key of another request is 422, also of another generation", async () => {
  await create("other");
  const expected = {
    code: 422,
    error_code: "idempotency_request_mismatch",
    message: "Idempotency-Key other belongs to another request",
  };
  const reply = await create("other", { timeout: 60 });
  expect([reply.status, reply.body, reply.headers["should-retry"]]).toEqual([
    422,
    expected,
    "false",
  ]);
  const first = await service.call({
    method: "POST",
    path: "/sandboxes",
    body: { templateID: "base" },
    headers: { "content-type": "application/json", "idempotency-key": "other" },
  });
  expect(first.body).toEqual(expected);
});

test("of five at once one creates, the others are told to wait", async () => {
  const before = amount();
  const replies = await Promise.all([1, 2, 3, 4, 5].map(() => create("at-once")));
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
  const refused = replies.filter(({ status }) => status === 409);
  expect(refused).toHaveLength(4);
  for (const { body, headers } of refused) {
    expect(body).toMatchObject({ code: 409, error_code: "idempotency_in_progress" });
    expect([headers["should-retry"], headers["retry-after"]]).toEqual(["true", "1"]);
  }
  expect((await create("at-once")).status).toBe(201);
  expect(amount()).toBe(before + 1);
});

test("a create that failed is done anew, and a key is its team's own", async () => {
  expect((await create("failed", { templateID: "missing" })).status).toBe(404);
  expect((await create("failed")).status).toBe(201);
  const holder = { name: "idempotency", team: "others" };
  const { key } = createKey(service.embedded.store, createSystemClock(), holder);
  const own = sandboxSchema.parse((await create("shared")).body);
  const theirs = sandboxSchema.parse((await create("shared", {}, { "x-api-key": key })).body);
  expect(theirs.sandboxID).not.toBe(own.sandboxID);
});

test.for(["", "A", "a_b", "a".repeat(256), "ä"])("a key %j is malformed", async (key) => {
  const { status, body } = await create(key);
  expect({ status, body }).toMatchObject({ status: 400, body: { code: 400 } });
});

async function startTimed(clock: FakeClock) {
  const timed = await startTestService({ clock });
  return {
    send: async () =>
      timed.call({
        method: "POST",
        path: "/v2/sandboxes",
        body: { templateID: "base", timeout: 80_000 },
        headers: { "content-type": "application/json", "idempotency-key": "daily" },
      }),
    [Symbol.asyncDispose]: () => timed[Symbol.asyncDispose](),
  };
}

test("a key counts for a day", async () => {
  const clock = createFakeClock();
  await using timed = await startTimed(clock);
  const { send } = timed;
  const first = await send();
  await clock.advance(86_399_000);
  expect((await send()).body).toEqual(first.body);
  await clock.advance(2_000);
  const next = await send();
  expect(next.status).toBe(201);
  expect(next.body).not.toEqual(first.body);
});

test("a clock that was behind for a while takes no key", async () => {
  const clock = createFakeClock(2 * YEAR_MS);
  await using timed = await startTimed(clock);
  const first = await timed.send();
  clock.set(YEAR_MS);
  expect((await timed.send()).body).toEqual(first.body);
  clock.set(2 * YEAR_MS + 1_000);
  expect((await timed.send()).body).toEqual(first.body);
});

test("a key of a clock that was ahead counts for a day from now", async () => {
  const clock = createFakeClock(2 * YEAR_MS);
  await using timed = await startTimed(clock);
  const { send } = timed;
  const first = await send();
  clock.set(YEAR_MS);
  expect((await send()).body).toEqual(first.body);
  await clock.advance(DAY_MS + 1);
  const next = await send();
  expect(next.status).toBe(201);
  expect(next.body).not.toEqual(first.body);
});

function createVolume(key: string, name: string, at = service) {
  return at.call({
    method: "POST",
    path: "/volumes",
    body: { name },
    headers: { "content-type": "application/json", "idempotency-key": key },
  });
}

test("a create of a volume whose answer was lost gets the volume", async () => {
  const first = await createVolume("volume", "lost");
  expect(first.status).toBe(201);
  const again = await createVolume("volume", "lost");
  expect([again.status, again.body]).toEqual([201, first.body]);
  expect((await createVolume("volume", "found")).body).toMatchObject({
    code: 422,
    error_code: "idempotency_request_mismatch",
  });
  expect((await createVolume("another", "lost")).status).toBe(400);
  expect((await createVolume("NO KEY", "else")).status).toBe(400);
  const { volumeID } = createdVolumeSchema.parse(first.body);
  await service.call({ method: "DELETE", path: `/volumes/${volumeID}` });
  const anew = await createVolume("volume", "lost");
  expect(anew.status).toBe(201);
  expect(anew.body).not.toEqual(first.body);
});

test("of several creates of a volume at once one makes it", async () => {
  using making = atStep("volume.recorded", async () => {
    expect((await createVolume("volumes-at-once", "at-once")).body).toMatchObject({
      code: 409,
      error_code: "idempotency_in_progress",
    });
  });
  expect((await createVolume("volumes-at-once", "at-once")).status).toBe(201);
  expect(making.wasReached).toBe(true);
});

test("of two services of a home that are asked at once one makes the volume", async () => {
  await using other = await startTestService({ home: service.home, instance: "other" });
  const names = Array.from({ length: 8 }, (_, index) => `shared-${index}`);
  const replies = await Promise.all(
    names.flatMap((name) => [service, other].map((at) => createVolume(name, name, at))),
  );
  const wrong = replies.filter(({ status }) => status !== 201 && status !== 409);
  expect(wrong.map(({ body }) => body)).toEqual([]);
});
