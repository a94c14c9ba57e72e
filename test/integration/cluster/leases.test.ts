/** Fronts that know of each other by a watch: one that is late takes none for dead. */

import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { createClusterApi } from "../../../src/cluster/api/api.ts";
import { startFronts } from "../../../src/cluster/fronts.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startApiServer } from "../../support/cluster/api-server.ts";

const SHARE = 0.1;
const LEASE_MS = 15_000 * SHARE;
const SETTLED = { timeout: 20_000, interval: 20 };
const LEASES = "app.kubernetes.io/managed-by=sandbox-mcp,sandbox-mcp.io/part=front";

async function open() {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startApiServer());
  const url = new URL(server.url);
  const api = stack.use(
    createClusterApi({ url, namespace: "test", readToken: async () => undefined }),
  );
  const log = createSilentLog();
  const { signal } = new AbortController();
  const start = async (name: string) =>
    stack.use(await startFronts({ api, log, name, signal, graceShare: SHARE }));
  const first = await start("a");
  const second = await start("b");
  await expect.poll(() => first.isAlive("b"), SETTLED).toBe(true);
  const owned = stack.move();
  return { server, first, second, [Symbol.asyncDispose]: async () => owned.disposeAsync() };
}

test("a front whose watch is silent takes no other one for dead, and one front goes on to lead", async () => {
  await using world = await open();
  const { first, second } = world;
  expect(first.isLeader).toBe(true);
  const late = world.server.delayWatch("leases", LEASES);
  // One that began since then, of which its watch tells nothing.
  await expect.poll(() => first.isAlive("c"), SETTLED).toBe(true);
  await delay(LEASE_MS);
  expect([first.isAlive("a"), first.isAlive("b")]).toEqual([true, true]);
  await expect.poll(() => [first.isLeader, second.isLeader], SETTLED).toEqual([true, false]);
  late[Symbol.dispose]();
  await expect.poll(() => first.isAlive("c"), SETTLED).toBe(false);
  expect(first.isAlive("b")).toBe(true);
});

test("after an outage the others have the time of a Lease to come back", async () => {
  await using world = await open();
  const { first, server } = world;
  server.fail(503);
  await expect.poll(() => first.isLeader, SETTLED).toBe(false);
  await delay(LEASE_MS);
  const seen: boolean[] = [];
  server.fail(undefined);
  const note = async () => {
    seen.push(first.isAlive("b"));
    // There is none: a watch that works again tells so.
    return first.isAlive("c");
  };
  await expect.poll(note, { timeout: 20_000, interval: 1 }).toBe(false);
  expect(seen).not.toContain(false);
  expect(first.isLeader).toBe(true);
});

test("a front that ended without a word is dead after its Lease", async () => {
  await using world = await open();
  const { first, server } = world;
  const path = "leases/c";
  const labels = { "app.kubernetes.io/managed-by": "sandbox-mcp", "sandbox-mcp.io/part": "front" };
  const made = await fetch(`${server.url}/apis/coordination.k8s.io/v1/namespaces/test/leases`, {
    method: "POST",
    body: JSON.stringify({ metadata: { name: "c", labels } }),
  });
  expect([made.status, server.objects.has(path)]).toEqual([201, true]);
  await expect.poll(() => first.isAlive("c"), SETTLED).toBe(true);
  await expect.poll(() => first.isAlive("c"), SETTLED).toBe(false);
});
