/** A front that is gone, or a fault, at each step of a snapshot: what is left is whole or removed. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { StepName } from "../../../../src/common/steps.ts";
import { atStep } from "../../../support/at-step.ts";
import { POD_KEY, sendFront } from "../../../support/cluster/pod-front.ts";
import {
  BASIC,
  startSnapshotWorld,
  type SnapshotWorld,
} from "../../../support/cluster/snapshot-world.ts";
import { IMAGE_STEPS } from "../../../support/faults/fault-cases.ts";

/** Two seconds of ten; every front that is taken for dead here is none of the two that run. */
const GRACE_SHARE = 0.2;
/** The grace of the leading front, and some of its rounds. */
const SETTLED = { timeout: 25_000, interval: 200 };
const LONG = 60_000;

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld({ graceShare: GRACE_SHARE });
}, LONG);
afterEach(async () => {
  for (const path of paths("pods/")) await send(`DELETE /sandboxes/${path.slice(5)}`);
});
afterAll(async () => place[Symbol.asyncDispose]());

const send = (call: `${string} ${string}`, body?: unknown, base = place.url) =>
  sendFront(base, call, body);

async function create(templateID: string, base = place.url): Promise<string> {
  const { status, body } = await send("POST /sandboxes", { templateID }, base);
  expect({ status, body }).toMatchObject({ status: 201 });
  return body.sandboxID;
}

const paths = (start: string) =>
  [...place.world.api.objects.keys()].filter((path) => path.startsWith(start));
const records = () => paths("configmaps/snapshot-");

/** As if the front that makes the only snapshot had died. */
function orphan(): string {
  const [path = ""] = records();
  place.world.api.change(path, (object) => {
    const data = Object(object["data"]);
    data.snapshot = JSON.stringify({ ...JSON.parse(data.snapshot), owner: "gone" });
  });
  return path.replace("configmaps/", "");
}

/** At this step the front of the only snapshot is taken for dead, and then something happens. */
function orphanAt(step: StepName, work: () => Promise<void>) {
  let name = "";
  const held = atStep(step, async () => {
    name = orphan();
    await work();
  });
  return {
    get name() {
      return name;
    },
    get wasReached() {
      return held.wasReached;
    },
    [Symbol.dispose]: () => held[Symbol.dispose](),
  };
}

const untilRemoved = async () => expect.poll(records, SETTLED).toEqual([]);
const fault = async () => {
  throw new Error("planned");
};

/** Whether the registry has the image of a record. */
async function hasImage(name: string): Promise<boolean> {
  const accept = "application/vnd.oci.image.manifest.v1+json";
  const headers = { ...BASIC, accept };
  const reply = await fetch(`${place.snapshots}/manifests/${name}`, { headers });
  await reply.arrayBuffer();
  return reply.status === 200;
}

const [recorded, pushed, committed] = IMAGE_STEPS.take;

test.for([recorded, pushed])(
  "one whose front is taken for dead at %s is removed, and no image is left",
  { timeout: LONG },
  async (step) => {
    const source = await create("base");
    using held = orphanAt(step, untilRemoved);
    const { status } = await send(`POST /sandboxes/${source}/snapshots`, {});
    expect([held.wasReached, status]).toEqual([true, 503]);
    expect([records(), await hasImage(held.name)]).toEqual([[], false]);
  },
);

test.for([recorded, pushed, committed])("a fault at %s leaves nothing", async (step) => {
  const source = await create("base");
  using held = orphanAt(step, fault);
  const { status } = await send(`POST /sandboxes/${source}/snapshots`, {});
  expect([held.wasReached, status]).toEqual([true, 500]);
  expect([records(), await hasImage(held.name)]).toEqual([[], false]);
});

test("one whose client leaves is not kept", async () => {
  const source = await create("base");
  const client = new AbortController();
  const left = Promise.withResolvers<void>();
  let name = "";
  using held = atStep(pushed, async () => {
    name = records()[0]?.replace("configmaps/", "") ?? "";
    client.abort();
    await left.promise;
    // The front reads the end of the connection before what comes after it.
    for (let count = 0; count < 2; count += 1) await send("GET /v2/sandboxes");
  });
  const taking = fetch(`${place.url}/sandboxes/${source}/snapshots`, {
    method: "POST",
    headers: { "x-api-key": POD_KEY, "content-type": "application/json" },
    body: "{}",
    signal: client.signal,
  });
  await expect(taking).rejects.toThrow("aborted");
  left.resolve();
  await expect.poll(records, SETTLED).toEqual([]);
  expect([held.wasReached, await hasImage(name)]).toEqual([true, false]);
});

test("one that is committed is whole, though its front dies before it answers", async () => {
  const source = await create("base");
  using held = atStep(committed, async () => {
    orphan();
    await create("orphaned", place.second);
  });
  const { status } = await send(`POST /sandboxes/${source}/snapshots`, { name: "orphaned" });
  expect([held.wasReached, status]).toEqual([true, 201]);
  const [, copy = ""] = paths("pods/");
  await send(`DELETE /sandboxes/${copy.slice(5)}`);
  expect((await send("DELETE /templates/orphaned")).status).toBe(204);
});

test("one that a sandbox has keeps its image, though a fault ends the call", async () => {
  const source = await create("base");
  let name = "";
  using held = atStep(committed, async () => {
    name = records()[0]?.replace("configmaps/", "") ?? "";
    await create("used", place.second);
    await fault();
  });
  const { status } = await send(`POST /sandboxes/${source}/snapshots`, { name: "used" });
  expect([held.wasReached, status]).toEqual([true, 500]);
  expect([records(), await hasImage(name)]).toEqual([[`configmaps/${name}`], true]);
  await create("used");
  for (const path of paths("pods/")) await send(`DELETE /sandboxes/${path.slice(5)}`);
  expect((await send("DELETE /templates/used")).status).toBe(204);
});

test.for([committed, ...IMAGE_STEPS.fork])(
  "the image of forks whose front is taken for dead at %s is removed, and no fork starts on it",
  { timeout: LONG },
  async (step) => {
    const source = await create("base");
    using held = orphanAt(step, untilRemoved);
    const { status, body } = await send(`POST /sandboxes/${source}/fork`, { count: 2 });
    expect(held.wasReached).toBe(true);
    expect({ status, body }).toMatchObject({ status: 201 });
    expect(body.map((fork: object) => Object.keys(fork))).toEqual([["error"], ["error"]]);
    expect([paths("pods/"), await hasImage(held.name)]).toEqual([[`pods/${source}`], false]);
  },
);

test(
  "a fork that no client waits for ends, also where that fails at first",
  { timeout: LONG },
  async () => {
    const source = await create("base");
    const client = new AbortController();
    let refused = 0;
    const isFirst = (body: unknown) => {
      if (!String(Object(Object(body).data).record).includes('"state":"ending"')) return false;
      refused += 1;
      return refused === 1;
    };
    const reply = { status: 500, reason: "", message: "planned outage" };
    place.world.api.refuse("PATCH configmaps", reply, isFirst);
    using _ = atStep("pod.committed", async () => {
      client.abort();
      // The front reads the end of the connection before what comes after it.
      for (let count = 0; count < 2; count += 1) await send("GET /v2/sandboxes");
    });
    const forking = fetch(`${place.url}/sandboxes/${source}/fork`, {
      method: "POST",
      headers: { "x-api-key": POD_KEY, "content-type": "application/json" },
      body: JSON.stringify({ count: 1, timeout: 600 }),
      signal: client.signal,
    });
    await expect(forking).rejects.toThrow("aborted");
    await expect.poll(() => refused, SETTLED).toBeGreaterThan(0);
    const forks = () => paths("pods/").filter((path) => path !== `pods/${source}`);
    await expect.poll(forks, SETTLED).toEqual([]);
  },
);

test.for(IMAGE_STEPS.remove)(
  "a removal that fails at %s is done all the same",
  { timeout: LONG },
  async (step) => {
    const source = await create("base");
    await send(`POST /sandboxes/${source}/snapshots`, { name: "removed" });
    const name = records()[0]?.replace("configmaps/", "") ?? "";
    expect(await hasImage(name)).toBe(true);
    using held = atStep(step, fault);
    expect((await send("DELETE /templates/removed")).status).toBe(204);
    expect(held.wasReached).toBe(true);
    await expect.poll(records, SETTLED).toEqual([]);
    expect(await hasImage(name)).toBe(false);
  },
);

test("a removal whose front is taken for dead is done by another", { timeout: LONG }, async () => {
  const source = await create("base");
  await send(`POST /sandboxes/${source}/snapshots`, { name: "left" });
  using held = atStep(IMAGE_STEPS.remove[0], async () => {
    orphan();
    await expect.poll(records, SETTLED).toEqual([]);
  });
  expect((await send("DELETE /templates/left")).status).toBe(204);
  expect([held.wasReached, records()]).toEqual([true, []]);
});
