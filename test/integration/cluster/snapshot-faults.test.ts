/** A front that is gone, or a fault, at each step of a snapshot: what is left is whole or removed. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { atStep } from "../../support/at-step.ts";
import { IMAGE_STEPS } from "../../support/fault-cases.ts";
import { POD_KEY } from "../../support/pod-front.ts";
import { BASIC, startSnapshotWorld, type SnapshotWorld } from "../../support/snapshot-world.ts";

/** The grace of the leading front, and some of its rounds. */
const SETTLED = { timeout: 25_000, interval: 200 };
const LONG = 60_000;

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld();
}, LONG);
afterEach(async () => {
  for (const path of paths("pods/")) await send(`DELETE /sandboxes/${path.slice(5)}`);
});
afterAll(async () => place[Symbol.asyncDispose]());

async function send(call: `${string} ${string}`, body?: unknown, base = place.url) {
  const [method, path = ""] = call.split(" ");
  const reply = await fetch(base + path, {
    method: method ?? "",
    headers: { "x-api-key": POD_KEY, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  return { status: reply.status, body: Object(text === "" ? undefined : JSON.parse(text)) };
}

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
    let name = "";
    using held = atStep(step, async () => {
      name = orphan();
      await expect.poll(records, SETTLED).toEqual([]);
    });
    const { status } = await send(`POST /sandboxes/${source}/snapshots`, {});
    expect([held.wasReached, status]).toEqual([true, 503]);
    expect([records(), await hasImage(name)]).toEqual([[], false]);
  },
);

test.for([recorded, pushed, committed])("a fault at %s leaves nothing", async (step) => {
  const source = await create("base");
  let name = "";
  using held = atStep(step, async () => {
    name = orphan();
    throw new Error("planned");
  });
  const { status } = await send(`POST /sandboxes/${source}/snapshots`, {});
  expect([held.wasReached, status]).toEqual([true, 500]);
  expect([records(), await hasImage(name)]).toEqual([[], false]);
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

test.for([committed, ...IMAGE_STEPS.fork])(
  "the image of forks whose front is taken for dead at %s is removed, and no fork starts on it",
  { timeout: LONG },
  async (step) => {
    const source = await create("base");
    let name = "";
    using held = atStep(step, async () => {
      name = orphan();
      await expect.poll(records, SETTLED).toEqual([]);
    });
    const { status, body } = await send(`POST /sandboxes/${source}/fork`, { count: 2 });
    expect(held.wasReached).toBe(true);
    expect({ status, body }).toMatchObject({ status: 201 });
    expect(body.map((fork: object) => Object.keys(fork))).toEqual([["error"], ["error"]]);
    expect([paths("pods/"), await hasImage(name)]).toEqual([[`pods/${source}`], false]);
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
    using held = atStep(step, async () => {
      throw new Error("planned");
    });
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
