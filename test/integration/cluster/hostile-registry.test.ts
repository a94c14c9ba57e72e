/** Registries that lead elsewhere, or whose layers are not of the size that their manifest says. */

import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import {
  copyBlob,
  digestOf,
  pushDocument,
  pushLayer,
  readLayer,
} from "../../../src/cluster/snapshots/blobs.ts";
import { pushSnapshot } from "../../../src/cluster/snapshots/push.ts";
import { createRegistry } from "../../../src/cluster/snapshots/registry.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

const BLOB = gzipSync("a layer");
const DESCRIPTOR = {
  mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
  digest: digestOf(BLOB),
  size: BLOB.length,
};
const WRONG_SIZE = {
  code: "unavailable",
  message: "a layer of the image is not of the size it is said to be",
};

/** One that has a blob and takes any; it notes what came, request by request. */
async function open(blob: Buffer, location = "/upload") {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    let bytes = 0;
    request.on("data", (chunk: Buffer) => (bytes += chunk.length));
    request.once("end", () => {
      seen.push(`${request.method} ${bytes}`);
      if (request.method === "HEAD") response.writeHead(404).end();
      else if (request.method === "GET") response.end(blob);
      else response.writeHead(202, { location }).end();
    });
  });
  const port = await listenOnLoopback(server);
  const place = {
    origin: `http://127.0.0.1:${port}`,
    repository: "images",
    credentials: undefined,
  };
  const registry = createRegistry(place, AbortSignal.timeout(20_000));
  const end = async () => {
    server.close();
    server.closeAllConnections();
  };
  return { registry, seen, [Symbol.asyncDispose]: end };
}

test("a layer of its size is copied", async () => {
  await using source = await open(BLOB);
  await using target = await open(BLOB);
  await copyBlob(source.registry, target.registry, DESCRIPTOR);
  expect(target.seen).toEqual(["HEAD 0", "POST 0", `PUT ${BLOB.length}`]);
});

test.for([
  { name: "longer", blob: Buffer.concat([BLOB, Buffer.from("GET /evil HTTP/1.1\r\n\r\n")]) },
  { name: "shorter", blob: BLOB.subarray(1) },
])("a layer that is $name is not copied, and ends no request", async ({ blob }) => {
  await using source = await open(blob);
  await using target = await open(BLOB);
  await expect(copyBlob(source.registry, target.registry, DESCRIPTOR)).rejects.toMatchObject(
    WRONG_SIZE,
  );
  expect(target.seen).toEqual(["HEAD 0", "POST 0"]);
});

test("a layer is not opened for an upload that leads nowhere", async () => {
  await using source = await open(BLOB);
  await using target = await open(BLOB, "file:///etc/passwd");
  const copying = copyBlob(source.registry, target.registry, DESCRIPTOR);
  await expect(copying).rejects.toMatchObject({ message: "the registry leads to no address" });
  expect(source.seen).toEqual([]);
});

test("a layer that is longer is read no further", async () => {
  await using source = await open(Buffer.concat([BLOB, Buffer.alloc(1_024)]));
  const reading = Array.fromAsync(readLayer(source.registry, DESCRIPTOR));
  await expect(reading).rejects.toMatchObject({ code: "unavailable", cause: WRONG_SIZE });
});

test.for([
  { origin: "https://registry.example", location: "http://registry.example/upload" },
  { origin: "https://registry.example", location: "file:///etc/passwd" },
])("uploads to $origin do not go to $location", ({ origin, location }) => {
  const place = { origin, repository: "images", credentials: undefined };
  const registry = createRegistry(place, AbortSignal.timeout(20_000));
  expect(() => registry.locate({ headers: { location } })).toThrow("the registry leads");
});

test("a registry that switches protocols unasked ends a request", async () => {
  const server = createServer();
  server.on("connection", (socket: Socket) => {
    socket.on("error", () => socket.destroy());
    const head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: none\r\n\r\n";
    socket.once("data", () => socket.end(head));
  });
  const port = await listenOnLoopback(server);
  const origin = `http://127.0.0.1:${port}`;
  const place = { origin, repository: "images", credentials: undefined };
  const registry = createRegistry(place, AbortSignal.timeout(20_000));
  await expect(registry.send({ method: "HEAD", path: "manifests/none" })).rejects.toMatchObject({
    code: "unavailable",
  });
  server.close();
});

test("a registry that refuses a layer half way is named with its answer", async () => {
  const server = createServer((request, response) => {
    if (request.method === "POST") response.writeHead(202, { location: "/upload" }).end();
    // It reads no more of what it refuses.
    else response.writeHead(507, { connection: "close" }).end();
  });
  const port = await listenOnLoopback(server);
  const place = {
    origin: `http://127.0.0.1:${port}`,
    repository: "images",
    credentials: undefined,
  };
  const registry = createRegistry(place, AbortSignal.timeout(20_000));
  const pushing = pushLayer(registry, async (sink) => {
    for (let count = 0; count < 2_000; count += 1) await sink(randomBytes(65_536));
  });
  await expect(pushing).rejects.toMatchObject({
    code: "unavailable",
    message: "the registry answered PATCH with 507",
  });
  server.close();
  server.closeAllConnections();
});

test("a layer that cannot be read says so, and not what became of its upload", async () => {
  await using target = await open(BLOB);
  const fault = new SandboxError("failed_precondition", "the changes hold a device");
  const pushing = pushLayer(target.registry, async (sink) => {
    await sink(randomBytes(65_536));
    throw fault;
  });
  await expect(pushing).rejects.toBe(fault);
});

/** One that has each blob, and leads whatever is sent to it to a page where one logs in. */
async function openLogin(status: number) {
  const server = createServer((request, response) => {
    const isRead = request.method === "HEAD" || request.method === "GET";
    const isPage = request.url === "/login" || isRead;
    const answer = () =>
      isPage ? response.end("<html>") : response.writeHead(status, { location: "/login" }).end();
    request.resume().once("end", answer);
  });
  const port = await listenOnLoopback(server);
  const place = {
    origin: `http://127.0.0.1:${port}`,
    repository: "images",
    credentials: undefined,
  };
  const end = async () => {
    server.close();
    server.closeAllConnections();
  };
  const target = createRegistry(place, AbortSignal.timeout(20_000));
  return { target, [Symbol.asyncDispose]: end };
}

test.for([302, 307])(
  "what is sent to a registry that redirects with %i is not taken for stored",
  async (status) => {
    await using world = await openLogin(status);
    const refused = { code: "unavailable" };
    const { target } = world;
    await expect(pushDocument(target, {})).rejects.toMatchObject(refused);
    const pushing = pushLayer(target, async (sink) => sink(Buffer.from("a")));
    await expect(pushing).rejects.toMatchObject(refused);
    const call = { method: "PUT", path: "manifests/tag", body: Buffer.from("{}") } as const;
    await expect(target.send(call)).rejects.toMatchObject(refused);
  },
);

/** One with an image; what it has not is a page, and whatever is sent to it is taken. */
async function openPage() {
  const config = Buffer.from(JSON.stringify({ rootfs: { diff_ids: [digestOf(BLOB)] } }));
  const described = { ...DESCRIPTOR, digest: digestOf(config), size: config.length };
  const manifest = JSON.stringify({ config: described, layers: [DESCRIPTOR] });
  const documents = new Map<string, string | Buffer>([
    ["/v2/images/manifests/base", manifest],
    [`/v2/images/blobs/${described.digest}`, config],
  ]);
  const server = createServer((request, response) => {
    const { method, url = "" } = request;
    request.resume().once("end", () => {
      const body = documents.get(url) ?? "<html>Welcome</html>";
      response.writeHead(200, { location: "/upload" }).end(method === "HEAD" ? undefined : body);
    });
  });
  const origin = `http://127.0.0.1:${await listenOnLoopback(server)}`;
  const place = { origin, repository: "images", credentials: undefined };
  const registry = createRegistry(place, AbortSignal.timeout(20_000));
  const end = async () => {
    server.close();
    server.closeAllConnections();
  };
  return { registry, [Symbol.asyncDispose]: end };
}

test("an image that a page took in the registry's place is not taken for stored", async () => {
  await using world = await openPage();
  const { registry } = world;
  const pushing = pushSnapshot({
    source: registry,
    target: registry,
    reference: "base",
    tag: "one",
    createdAtMs: 0,
    bounds: { maxBytes: 1_000_000, maxEntries: 100, maxPathBytes: 1_000 },
    write: async (sink) => sink(Buffer.from("changes")),
  });
  await expect(pushing).rejects.toMatchObject({
    code: "unavailable",
    message: "the registry does not have the image that it took",
  });
});
