/** What `doctor --engine kubernetes` says of quotas, runtime classes and the registry for snapshots. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { createClusterApi } from "../../../src/cluster/api/api.ts";
import { probeCluster, type ProbeOptions } from "../../../src/cluster/probe/probe.ts";
import { startApiServer } from "../../support/cluster/api-server.ts";
import { startPodDaemons } from "../../support/cluster/pod-daemons.ts";
import { startRegistry } from "../../support/images/registry.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const VERSION = { gitVersion: "v1.36.3", major: "1", minor: "36" };
const REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const QUOTAS = "/api/v1/namespaces/test/resourcequotas";
/** Of tester:secret, by bcrypt. */
const LOGIN = "tester:$2a$05$3Zp1S6sW4GOhnYyVqmIHqOAqHj2mcrUU5f8Qn9zPDvRkLU2m8hQBC";

async function openCluster() {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startApiServer());
  const daemons = stack.use(await startPodDaemons(server));
  daemons.isEnforcing = true;
  server.provide("/version", VERSION);
  server.provide(REVIEWS, { status: { allowed: true } });
  const url = new URL(server.url);
  const api = stack.use(
    createClusterApi({ url, namespace: "test", readToken: async () => undefined }),
  );
  const owned = stack.move();
  return {
    server,
    daemons,
    async report(options: Partial<ProbeOptions> = {}) {
      const { checks } = await probeCluster({
        api,
        images: [{ name: "base", image: "image:1" }],
        podTemplate: {},
        limits: { memoryMb: 512, cpus: 2, diskMb: 2_048, pids: 512 },
        requireLevel: "none",
        podPort: daemons.port,
        ...options,
      });
      return new Map(checks.map(({ name, ...found }) => [name, found]));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function quota(name: string, hard: Record<string, string>, used: Record<string, string> = {}) {
  return { metadata: { name }, spec: { hard }, status: { hard, used } };
}

test("without quotas, classes and a registry nothing is said of them but that", async () => {
  await using cluster = await openCluster();
  const checks = await cluster.report();
  expect([...checks.keys()]).toEqual([
    "API server",
    "rights",
    "quota",
    "probe Pod",
    "network policy",
  ]);
  expect(checks.get("quota")).toEqual({ outcome: "ok", detail: "no quota bounds the sandboxes" });
});

test.for([
  ["memory", { "requests.memory": "3Gi" }, {}, "6 more sandboxes fit (q: requests.memory)"],
  ["processors", { cpu: "1" }, { cpu: "500m" }, "2 more sandboxes fit (q: cpu)"],
  ["Pods", { "count/pods": "9" }, { "count/pods": "2" }, "7 more sandboxes fit (q: count/pods)"],
  ["limits", { "limits.cpu": "5" }, {}, "2 more sandboxes fit (q: limits.cpu)"],
  [
    "other kinds",
    { services: "0", "requests.nvidia.com/gpu": "0" },
    {},
    "no quota bounds the sandboxes",
  ],
  ["units that are unknown", { memory: "1e9x" }, {}, "no quota bounds the sandboxes"],
] as const)("a quota of %s", async ([, hard, used, detail]) => {
  await using cluster = await openCluster();
  cluster.server.provide(QUOTAS, { items: [quota("q", hard, used)] });
  expect((await cluster.report()).get("quota")).toEqual({ outcome: "ok", detail });
});

test("the least of several quotas counts, those with scopes do not, and a used one is missing", async () => {
  await using cluster = await openCluster();
  const scoped = quota("scoped", { pods: "0" });
  cluster.server.provide(QUOTAS, {
    items: [
      { ...scoped, spec: { ...scoped.spec, scopes: ["BestEffort"] } },
      { ...scoped, spec: { ...scoped.spec, scopeSelector: { matchExpressions: [] } } },
      quota("wide", { pods: "100" }),
      quota("used", { memory: "1Gi" }, { memory: "600Mi" }),
    ],
  });
  expect((await cluster.report()).get("quota")).toEqual({
    outcome: "missing",
    detail: "0 more sandboxes fit (used: memory)",
    remedy: "raise this ResourceQuota, or give sandboxes smaller limits and requests",
  });
});

test.for([
  [{ metadata: { name: "gvisor" } }, { outcome: "ok", detail: "gvisor" }],
  [403, { outcome: "ok", detail: "gvisor: not read, the probe Pod shows whether it is there" }],
  [
    404,
    {
      outcome: "missing",
      detail: "there is no runtime class gvisor",
      remedy: "name one as runtimeClassName in --pod-template: kubectl get runtimeclass",
    },
  ],
] as const)("a runtime class that answers %j", async ([answer, expected]) => {
  await using cluster = await openCluster();
  cluster.server.provide("/apis/node.k8s.io/v1/runtimeclasses/gvisor", answer);
  const podTemplate = { spec: { runtimeClassName: "gvisor" } };
  expect((await cluster.report({ podTemplate })).get("runtime class")).toEqual(expected);
});

test.for([
  ["takes and removes", true, "a blob was pushed, read and removed again"],
  [
    "removes nothing",
    false,
    "a blob was pushed, read and not removed: images of snapshots stay in this registry after their end",
  ],
] as const)("a registry that %s", async ([, canDelete, text]) => {
  await using folder = await makeTempFolder();
  await using registry = await startRegistry({ directory: folder.path, canDelete });
  await using cluster = await openCluster();
  const snapshots = { registry: `${registry.host}/team/snapshots`, loginFile: undefined };
  expect((await cluster.report({ snapshots })).get("registry of snapshots")).toEqual({
    outcome: "ok",
    detail: `${registry.host}/team/snapshots: ${text}`,
  });
});

test("a registry that asks for a login that is not there, and one that is away", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "registry");
  await using registry = await startRegistry({ directory, login: LOGIN });
  await using cluster = await openCluster();
  const [locked, away] = [registry.host, "127.0.0.1:1"];
  const found = await Promise.all(
    [locked, away].map(async (host) => {
      const snapshots = { registry: `${host}/team/snapshots`, loginFile: undefined };
      return (await cluster.report({ snapshots })).get("registry of snapshots");
    }),
  );
  expect(found).toEqual([
    expect.objectContaining({
      outcome: "missing",
      detail: expect.stringContaining("its login is missing or wrong"),
      remedy: "check --snapshot-registry, --snapshot-registry-login and the network",
    }),
    expect.objectContaining({ outcome: "missing", detail: expect.stringContaining(away) }),
  ]);
});

test.for([
  [
    true,
    { outcome: "ok", detail: "the probe Pod does not reach the address from which it was asked" },
  ],
  [
    false,
    {
      outcome: "warning",
      detail: expect.stringContaining("so may sandboxes"),
      remedy: expect.stringContaining("a network plugin that enforces NetworkPolicy"),
    },
  ],
] as const)(
  "a network that enforces policies: %s",
  { timeout: 30_000 },
  async ([isEnforcing, expected]) => {
    await using cluster = await openCluster();
    cluster.daemons.isEnforcing = isEnforcing;
    expect((await cluster.report()).get("network policy")).toEqual(expected);
  },
);
