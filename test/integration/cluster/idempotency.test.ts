/** Creates with an `Idempotency-Key` at equal fronts: one sandbox for a key, whichever front is asked. */

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { atStep } from "../../support/at-step.ts";
import {
  POD_KEY,
  startPodWorld,
  type PodFront,
  type PodWorld,
} from "../../support/cluster/pod-front.ts";

/** A key whose front died is settled after the grace of the leading front. */
const SETTLED = { timeout: 20_000 };
/** Two seconds of five, after which a front that is gone is taken for dead. */
const GRACE_SHARE = 0.4;

let world: PodWorld;
let one: PodFront;
let two: PodFront;

beforeAll(async () => {
  world = await startPodWorld();
  one = await world.start({ graceShare: GRACE_SHARE });
  two = await world.start({ graceShare: GRACE_SHARE });
});
afterEach(async () => {
  for (const path of sandboxes()) await kill(path.replace("pods/", ""));
  await forgetKeys();
});
afterAll(async () => world[Symbol.asyncDispose]());

async function create({ url }: PodFront, key: string, body: object = {}) {
  const reply = await fetch(`${url}/v2/sandboxes`, {
    method: "POST",
    headers: {
      "x-api-key": POD_KEY,
      "content-type": "application/json",
      "idempotency-key": key,
    },
    body: JSON.stringify({ templateID: "base", timeout: 300, ...body }),
  });
  // Fronts of one machine have each a port of their own; those of a cluster have one name.
  const made = Object(await reply.json());
  delete made.domain;
  return { status: reply.status, headers: reply.headers, body: made };
}

async function kill(sandboxId: string): Promise<void> {
  await fetch(`${one.url}/sandboxes/${sandboxId}`, {
    method: "DELETE",
    headers: { "x-api-key": POD_KEY },
  });
}

const sandboxes = () => [...world.api.objects.keys()].filter((path) => path.startsWith("pods/"));
const keys = () =>
  [...world.api.objects.keys()].filter((path) => path.startsWith("configmaps/creation-"));

/** Makes the only record of a key older, by the clock of the API server. */
function ageKey(ms: number): void {
  const [path = ""] = keys();
  world.api.change(path, (object) => {
    const creationTimestamp = new Date(Date.now() - ms).toISOString();
    Object.assign(Object(object["metadata"]), { creationTimestamp });
  });
}

/** Changes the only record of a key. */
function changeKey(changes: object): void {
  const [path = ""] = keys();
  world.api.change(path, (object) => {
    const data = Object(object["data"]);
    data.creation = JSON.stringify({ ...JSON.parse(data.creation), ...changes });
  });
}

/** As the leading front does with records that are too old. */
async function forgetKeys(): Promise<void> {
  for (const path of keys()) world.api.remove(path);
  await expect.poll(keys).toEqual([]);
}

test("the same key and body get the same reply at another front, also when the sandbox is gone", async () => {
  const first = await create(one, "same", { metadata: { a: "b" } });
  expect(first.status).toBe(201);
  const again = await create(two, "same", { metadata: { a: "b" } });
  expect([again.status, again.body]).toEqual([201, first.body]);
  expect(sandboxes()).toHaveLength(1);
  await kill(first.body.sandboxID);
  const later = await create(two, "same", { metadata: { a: "b" } });
  expect([later.status, later.body]).toEqual([201, first.body]);
  expect(sandboxes()).toEqual([]);
});

test("the key of another request is 422 at every front", async () => {
  await create(one, "other");
  const refused = await create(two, "other", { timeout: 60 });
  expect([refused.status, refused.body.error_code]).toEqual([422, "idempotency_request_mismatch"]);
});

test("of six at once at two fronts one creates, the others are told to wait", async () => {
  const replies = await Promise.all(
    [one, two, one, two, one, two].map((front) => create(front, "at-once")),
  );
  const made = replies.filter(({ status }) => status === 201);
  expect(made).toHaveLength(1);
  const refused = replies.filter(({ status }) => status === 409);
  expect(refused).toHaveLength(5);
  for (const { body, headers } of refused) {
    expect([body.error_code, headers.get("retry-after")]).toEqual(["idempotency_in_progress", "1"]);
  }
  expect(sandboxes()).toHaveLength(1);
});

test("a create that failed leaves no key and is done anew", async () => {
  expect((await create(one, "failed", { templateID: "missing" })).status).toBe(404);
  world.api.refuseNext("pods", { status: 500, reason: "", message: "planned" });
  expect((await create(one, "failed")).status).toBe(503);
  expect([...keys(), ...sandboxes()]).toEqual([]);
  expect((await create(two, "failed", { timeout: 60 })).status).toBe(201);
});

test("a key whose front died after its sandbox ran is answered with that sandbox", async () => {
  const first = await create(one, "died");
  changeKey({ owner: "f-gone", isKept: false });
  expect((await create(two, "died")).status).toBe(409);
  await expect
    .poll(async () => (await create(two, "died")).body, SETTLED)
    .toMatchObject({ sandboxID: first.body.sandboxID });
  expect(sandboxes()).toHaveLength(1);
});

test.for([
  { when: "before it named a sandbox", changes: { sandbox: null } },
  { when: "before its sandbox ran", changes: {} },
])("a key whose front died $when makes a new sandbox", async ({ changes }) => {
  const first = await create(one, "died-early");
  await kill(first.body.sandboxID);
  changeKey({ owner: "f-gone", isKept: false, ...changes });
  await expect.poll(async () => (await create(two, "died-early")).status, SETTLED).toBe(201);
  const again = await create(one, "died-early");
  expect(again.body.sandboxID).not.toBe(first.body.sandboxID);
  expect(sandboxes()).toHaveLength(1);
});

test("a front that was held for dead makes no second sandbox", async () => {
  using taken = atStep("pod.told", forgetKeys);
  const late = await create(one, "held-for-dead");
  expect(taken.wasReached).toBe(true);
  expect([late.status, late.body.error_code]).toEqual([409, "idempotency_in_progress"]);
  expect([...keys(), ...sandboxes()]).toEqual([]);
});

test("a claim that was given up does not name its sandbox to the key later", async () => {
  await using pooled = await startPodWorld();
  const front = await pooled.start({ pool: [{ template: "base", size: 1 }] });
  const warm = () =>
    [...pooled.api.objects].find(([, { kind, status }]) => kind === "Pod" && status !== undefined);
  await expect.poll(warm).toBeDefined();
  const [path = ""] = warm() ?? [];
  const told = Promise.withResolvers<void>();
  const after = told.promise;
  pooled.api.refuseNext(path, { status: 500, reason: "", message: "planned", after });
  // The first start is held until another one has taken its place; none may do so before it has ended.
  const other = Promise.withResolvers<void>();
  using first = atStep("pod.told", async () => {
    told.resolve();
    await Promise.race([other.promise, delay(2_000)]);
  });
  using second = atStep("creation.bound", async () => other.resolve());
  const made = await create(front, "given-up");
  expect([made.status, first.wasReached, second.wasReached]).toEqual([201, true, true]);
  expect(`pods/${made.body.sandboxID}`).not.toBe(path);
  expect((await create(front, "given-up")).body).toEqual(made.body);
});

test("an outage after the sandbox ran: the key is kept later, and no second one is made", async () => {
  using outage = atStep("pod.committed", async () => world.api.fail(503));
  expect((await create(one, "outage")).status).toBe(503);
  expect(outage.wasReached).toBe(true);
  world.api.fail(undefined);
  await expect.poll(async () => (await create(two, "outage")).status, SETTLED).toBe(201);
  const { body } = await create(one, "outage");
  expect(sandboxes()).toEqual([`pods/${body.sandboxID}`]);
});

test("a record that was written, and whose reply was lost, does not keep its key", async () => {
  world.api.loseNextReply("configmaps");
  expect((await create(one, "lost-reply")).status).toBe(503);
  await expect.poll(keys, SETTLED).toEqual([]);
  expect((await create(one, "lost-reply")).status).toBe(201);
});

test("a key counts for a day, and is then removed", async () => {
  const first = await create(one, "daily");
  ageKey(86_402_000);
  const next = await create(two, "daily");
  expect([next.status, next.body.sandboxID === first.body.sandboxID]).toEqual([201, false]);
  ageKey(86_402_000);
  await expect.poll(keys, SETTLED).toEqual([]);
});

test.for([
  { clock: "ahead", ms: 2 * 86_400_000 },
  { clock: "behind", ms: -2 * 86_400_000 },
])("a key of a front whose clock was $clock counts like others", async ({ clock, ms }) => {
  const first = await create(one, clock);
  changeKey({ createdAtMs: Date.now() + ms });
  const again = await create(two, clock);
  expect([again.status, again.body]).toEqual([201, first.body]);
  ageKey(86_402_000);
  await expect.poll(keys, SETTLED).toEqual([]);
});
