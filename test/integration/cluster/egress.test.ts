/** Sandboxes with rules of egress of their own: which objects they have, and what proves them. */

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  sendFront,
  startPodWorld,
  type PodFront,
  type PodWorld,
} from "../../support/cluster/pod-front.ts";

const EGRESS = { denied: ["10.0.0.0/8"], nameServers: [] };

let world: PodWorld;
let front: PodFront;

beforeAll(async () => {
  world = await startPodWorld();
  front = await world.start({ egress: EGRESS, pool: [{ template: "base", size: 1 }] });
});
beforeEach(() => {
  world.daemons.isEnforcing = true;
});
afterAll(async () => world[Symbol.asyncDispose]());

const call = async (route: `${string} ${string}`, body?: object) =>
  sendFront(front.url, route, body);
const create = async (body: object) =>
  call("POST /v2/sandboxes", { templateID: "base", timeout: 300, ...body });

/** Of records, policies and Pods of sandboxes, not of the pool. */
const objects = () =>
  [...world.api.objects]
    .filter(([path, { metadata }]) => {
      const part = metadata.labels?.["sandbox-mcp.io/part"];
      return part === "sandbox" || path.startsWith("networkpolicies/");
    })
    .map(([path]) => path)
    .toSorted();

test("without internet access the Pod has the label of its own rules and no policy opens a way", async () => {
  const { status, body } = await create({ allow_internet_access: false });
  expect([status, body.allowInternetAccess]).toEqual([201, false]);
  const id: string = body.sandboxID;
  expect(objects()).toEqual([`configmaps/${id}`, `pods/${id}`]);
  const { labels } = world.api.objects.get(`pods/${id}`)?.metadata ?? {};
  expect(labels).toMatchObject({
    "sandbox-mcp.io/egress": "own",
    "sandbox-mcp.io/sandbox": id,
  });
  expect((await call(`GET /sandboxes/${id}`)).body.missingAbilities).toContain(
    "network rules by host name",
  );
  await call(`DELETE /sandboxes/${id}`);
});

test("networks are a policy of the sandbox, which is there before its Pod and goes with it", async () => {
  const listParts = () =>
    [...world.api.objects.values()].map(({ metadata }) => metadata.labels?.["sandbox-mcp.io/part"]);
  // The pool's Pod is made by the same call, and not for a sandbox with rules of its own.
  await expect.poll(listParts, { timeout: 60_000 }).toContain("pool");
  const before = world.api.calls.length;
  const { body } = await create({ network: { denyOut: ["192.0.2.0/24"] } });
  const id: string = body.sandboxID;
  expect(objects()).toEqual([`configmaps/${id}`, `networkpolicies/${id}`, `pods/${id}`]);
  const made = world.api.calls.slice(before).filter((name) => name.startsWith("POST"));
  expect(made.indexOf("POST networkpolicies")).toBeLessThan(made.indexOf("POST pods"));
  await call(`DELETE /sandboxes/${id}`);
  expect(objects()).toEqual([]);
});

test("a cluster that enforces nothing is found out, and nothing is left", async () => {
  world.daemons.isEnforcing = false;
  const { status, body } = await create({ network: { denyOut: ["192.0.2.0/24"] } });
  const expected = expect.stringContaining("this cluster enforces no NetworkPolicy");
  expect([status, body.message]).toEqual([501, expected]);
  expect(objects()).toEqual([]);
});

test("a daemon that refuses to try a connection is a start that failed, and nothing is left", async () => {
  world.daemons.refusedPath = "/reach";
  const { status, body } = await create({ network: { denyOut: ["192.0.2.0/24"] } });
  world.daemons.refusedPath = undefined;
  expect([status, body]).toMatchObject([503, { error_code: "sandbox_create_failed" }]);
  expect(objects()).toEqual([]);
});

test("a policy that is refused leaves nothing", async () => {
  world.api.refuseNext("networkpolicies", { status: 403, reason: "Forbidden", message: "no" });
  const { status } = await create({ network: { denyOut: ["192.0.2.0/24"] } });
  expect(status).toBe(503);
  expect(objects()).toEqual([]);
});

test("names and later changes are refused by name", async () => {
  const named = await create({ network: { allowOut: ["example.com"], denyOut: ["0.0.0.0/0"] } });
  expect([named.status, named.body.message]).toEqual([501, expect.stringContaining("host name")]);
  const { body } = await create({ allow_internet_access: false });
  const path = `/sandboxes/${body.sandboxID}`;
  const changed = await call(`PUT ${path}/network`, { allow_internet_access: true });
  expect([changed.status, changed.body.message]).toEqual([501, expect.stringContaining("change")]);
  await call(`DELETE ${path}`);
});
