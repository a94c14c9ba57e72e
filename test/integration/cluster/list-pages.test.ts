/** Lists of the API server in pages: too large ones, tokens that expire, servers that never end a list. */

import { createServer, type RequestListener } from "node:http";
import { expect, test } from "vitest";
import { createClusterApi } from "../../../src/cluster/api/api.ts";
import { listObjects } from "../../../src/cluster/api/list-pages.ts";
import { startApiServer } from "../../support/cluster/api-server.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

const SELECTOR = "app=test";
const MAX_BYTES = 4_096;
const COUNT = 9;

function connect(url: string) {
  const address = { namespace: "test", readToken: async () => undefined };
  return createClusterApi({ ...address, url: new URL(url), maxReplyBytes: MAX_BYTES });
}

/** Objects of which less than five fit into a reply. */
async function open() {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startApiServer());
  const api = stack.use(connect(server.url));
  for (let at = 0; at < COUNT; at += 1) {
    const metadata = { name: `name${at}`, labels: { app: "test" } };
    const body = { metadata, data: { text: "x".repeat(800) } };
    await api.call({ method: "POST", path: "configmaps", body });
  }
  const owned = stack.move();
  const list = async () => {
    const { items } = await listObjects(api, { kind: "configmaps", selector: SELECTOR });
    return items.map((item) => Object(item).metadata.name);
  };
  return { server, list, [Symbol.asyncDispose]: async () => owned.disposeAsync() };
}

const NAMES = Array.from({ length: COUNT }, (_, at) => `name${at}`);

test("a list that is larger than a reply may be comes in smaller pages, whole", async () => {
  await using world = await open();
  expect(await world.list()).toEqual(NAMES);
  // From 500 objects down to three, which is what fits.
  expect(world.server.calls.filter((call) => call === "GET configmaps")).toHaveLength(10);
});

test("a list whose token expires is begun anew", async () => {
  await using world = await open();
  const { server } = world;
  let pages = 0;
  const expire = async () => {
    pages += 1;
    // The ninth call is that of the second page.
    if (pages === 9) {
      server.expireVersions();
      server.remove("configmaps/name0");
    } else server.before("GET configmaps", expire);
  };
  server.before("GET configmaps", expire);
  expect(await world.list()).toEqual(NAMES.slice(1));
});

test("a list whose tokens always expire is a fault, and no part of a list", async () => {
  await using world = await open();
  const { server } = world;
  const expire = async () => {
    server.expireVersions();
    server.before("GET configmaps", expire);
  };
  server.before("GET configmaps", expire);
  await expect(world.list()).rejects.toMatchObject({
    code: "unavailable",
    message: "the list of configmaps expires before its end",
  });
});

test("one object that is larger than a reply may be is a fault", async () => {
  await using world = await open();
  world.server.change("configmaps/name4", (object) => {
    object["data"] = { text: "x".repeat(MAX_BYTES) };
  });
  await expect(world.list()).rejects.toMatchObject({ code: "unavailable" });
});

/** What another server answers in the place of the API server. */
async function listFrom(answer: RequestListener) {
  await using stack = new AsyncDisposableStack();
  const server = createServer(answer);
  stack.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  const port = await listenOnLoopback(server);
  const api = stack.use(connect(`http://127.0.0.1:${port}`));
  return await listObjects(api, { kind: "pods", selector: SELECTOR });
}

test.for([
  {
    name: "the same page again",
    body: '{"metadata":{"resourceVersion":"1","continue":"again"},"items":[]}',
    message: "the list of pods does not end",
  },
  { name: "no JSON", body: "<html>", message: "Kubernetes API: 200 without an object" },
  { name: "no list", body: "{}", message: "the list of pods has no form of Kubernetes" },
])("a server that answers with $name gives no list", async ({ body, message }) => {
  const listing = listFrom((_request, response) => void response.end(body));
  await expect(listing).rejects.toMatchObject({ code: "unavailable", message });
});

test("an API server that is busy is away for a moment, and no limit of a client", async () => {
  const listing = listFrom((_request, response) => void response.writeHead(429).end("{}"));
  await expect(listing).rejects.toMatchObject({ code: "unavailable", retryAfterSeconds: 2 });
});
