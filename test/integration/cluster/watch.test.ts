/** List and watch against the API server of the tests: bookmarks, expired versions, outages. */

import { getEventListeners } from "node:events";
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { createClusterApi } from "../../../src/cluster/api/api.ts";
import { podSchema } from "../../../src/cluster/api/objects.ts";
import { startWatchCache } from "../../../src/cluster/api/watch-cache.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startApiServer } from "../../support/cluster/api-server.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

const LABELS = { "app.kubernetes.io/managed-by": "sandbox-mcp" };
const SELECTOR = "app.kubernetes.io/managed-by=sandbox-mcp";

async function open() {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startApiServer());
  const url = new URL(server.url);
  const address = { url, namespace: "test", readToken: async () => undefined };
  const api = stack.use(createClusterApi(address));
  const make = async (name: string, labels: object = LABELS) =>
    api.call({ method: "POST", path: "pods", body: { kind: "Pod", metadata: { name, labels } } });
  await make("first");
  const signals = new Set<AbortSignal>();
  const call: typeof api.call = async (wanted) => {
    if (wanted.signal !== undefined) signals.add(wanted.signal);
    return api.call(wanted);
  };
  const cache = stack.use(
    startWatchCache({
      api: { ...api, call },
      log: createSilentLog(),
      kind: "pods",
      selector: SELECTOR,
      schema: podSchema,
    }),
  );
  await cache.filled;
  const owned = stack.move();
  const names = () => [...cache.items.keys()].toSorted();
  return {
    server,
    api,
    cache,
    make,
    names,
    signals,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test("changes of others arrive, of selected objects alone", async () => {
  await using world = await open();
  await world.make("second");
  await world.make("other", {});
  world.server.remove("pods/first");
  await expect.poll(world.names).toEqual(["second"]);
});

test("after an expired version everything is listed anew", async () => {
  await using world = await open();
  await world.make("second");
  await expect.poll(world.names).toEqual(["first", "second"]);
  world.server.bookmark();
  world.server.expireVersions();
  await world.make("third");
  world.server.remove("pods/first");
  await expect.poll(world.names).toEqual(["second", "third"]);
});

test("a cache that goes on for long leaves nothing at the signal of its end", async () => {
  await using world = await open();
  for (const name of ["second", "third", "fourth"]) {
    world.server.expireVersions();
    await world.make(name);
    await expect.poll(world.names).toContain(name);
  }
  expect(world.signals.size).toBe(1);
  const listeners = () => [...world.signals].flatMap((one) => getEventListeners(one, "abort"));
  await expect.poll(listeners).toEqual([]);
});

test("during an outage what is known stays, and changes come after it", async () => {
  await using world = await open();
  world.server.fail(503);
  await expect(world.make("second")).rejects.toMatchObject({
    code: "unavailable",
    retryAfterSeconds: 2,
  });
  expect(world.names()).toEqual(["first"]);
  world.server.fail(undefined);
  await world.make("second");
  await expect.poll(world.names).toEqual(["first", "second"]);
});

test("after a restore from a backup what is known is what is there, whatever its version", async () => {
  await using world = await open();
  await world.make("second");
  await expect.poll(world.names).toEqual(["first", "second"]);
  world.server.lose("pods/second");
  world.server.restore();
  await expect.poll(world.names).toEqual(["first"]);
  const first = () => world.cache.items.get("first")?.metadata.resourceVersion;
  expect(first()).toBe(world.server.objects.get("pods/first")?.metadata.resourceVersion);
  await world.make("third");
  await expect.poll(world.names).toEqual(["first", "third"]);
});

test("a patch that names an older version is refused, and so is a second object of a name", async () => {
  await using world = await open();
  const { resourceVersion } = world.cache.items.get("first")?.metadata ?? {};
  const body = { metadata: { resourceVersion, labels: { a: "b" } } };
  const patch = async () => world.api.call({ method: "PATCH", path: "pods/first", body });
  await patch();
  await expect(patch()).rejects.toMatchObject({ code: "failed_precondition" });
  await expect(world.make("first")).rejects.toMatchObject({ code: "already_exists" });
});

test("watches that end with a fault at once are begun less and less often", async () => {
  const began: number[] = [];
  const fault = `${JSON.stringify({ type: "ERROR", object: { kind: "Status", code: 500 } })}\n`;
  const server = createServer((request, response) => {
    if (new URL(request.url ?? "", "http://api").searchParams.has("watch")) {
      response.end(fault);
      return;
    }
    began.push(performance.now());
    response.end(JSON.stringify({ metadata: { resourceVersion: "1" }, items: [] }));
  });
  const url = new URL(`http://127.0.0.1:${await listenOnLoopback(server)}`);
  using api = createClusterApi({ url, namespace: "test", readToken: async () => undefined });
  const options = { api, log: createSilentLog(), kind: "pods", selector: SELECTOR };
  await using cache = startWatchCache({ ...options, schema: podSchema });
  await cache.filled;
  await expect.poll(() => began.length, { timeout: 10_000 }).toBeGreaterThanOrEqual(6);
  server.close();
  server.closeAllConnections();
  // 50, 100, 200, 400 and 800 ms, in place of five times 50.
  expect((began[5] ?? 0) - (began[0] ?? 0)).toBeGreaterThan(1_400);
});
