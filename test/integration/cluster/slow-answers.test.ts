/** One request to the API server that is not answered keeps nothing else waiting. */

import { afterAll, beforeAll, expect, test } from "vitest";
import {
  sendFront,
  startPodWorld,
  type PodFront,
  type PodWorld,
} from "../../support/cluster/pod-front.ts";

/** Shorter than a request is waited for. */
const SOON = { timeout: 10_000, interval: 50 };
const LONG = 30_000;

let world: PodWorld;
let front: PodFront;

beforeAll(async () => {
  world = await startPodWorld();
  front = await world.start();
});
afterAll(async () => world[Symbol.asyncDispose]());

async function create(timeout: number): Promise<string> {
  const wish = { templateID: "base", timeout };
  const { status, body } = await sendFront(front.url, "POST /v2/sandboxes", wish);
  expect(status).toBe(201);
  return body.sandboxID;
}

test(
  "the end of a sandbox that waits for its answer delays no other end",
  { timeout: LONG },
  async () => {
    const slow = await create(1);
    const answer = Promise.withResolvers<void>();
    const isAsked = Promise.withResolvers<void>();
    world.api.before(`PATCH configmaps/${slow}`, async () => {
      isAsked.resolve();
      await answer.promise;
    });
    await isAsked.promise;
    const other = await create(1);
    await expect.poll(() => world.api.objects.has(`configmaps/${other}`), SOON).toBe(false);
    expect(world.api.objects.has(`pods/${slow}`)).toBe(true);
    answer.resolve();
    await expect.poll(() => world.api.objects.has(`pods/${slow}`), SOON).toBe(false);
  },
);

test(
  "a renewal of the Lease that is not answered is soon sent again",
  { timeout: LONG },
  async () => {
    const [lease = ""] = [...world.api.objects.keys()].filter((path) => path.startsWith("leases/"));
    const call = `PATCH ${lease}`;
    const answer = Promise.withResolvers<void>();
    const isAsked = Promise.withResolvers<void>();
    world.api.before(call, async () => {
      isAsked.resolve();
      await answer.promise;
    });
    await isAsked.promise;
    const count = () => world.api.calls.filter((made) => made === call).length;
    const before = count();
    await expect.poll(count, SOON).toBeGreaterThan(before);
    answer.resolve();
  },
);

test(
  "a create and a list go on while the watch of Pods is open and silent",
  { timeout: LONG },
  async () => {
    world.api.delayWatch("pods", "app.kubernetes.io/managed-by=sandbox-mcp");
    const first = await create(300);
    // The watch was begun anew, and tells of what others do.
    world.api.remove(`pods/${first}`);
    const isGone = async () =>
      (await sendFront(front.url, `GET /sandboxes/${first}`)).status === 404;
    await expect.poll(isGone, { timeout: 20_000, interval: 100 }).toBe(true);
  },
);
