/** Blobs of images in a registry: layers and documents, pushed, copied and read. */

import { createHash, type Hash } from "node:crypto";
import { once } from "node:events";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { SandboxError } from "../../common/errors.ts";
import { sha256Hex } from "../../common/hash.ts";
import { z } from "../../common/schema.ts";
import type { LayerSink } from "./layer.ts";
import type { Registry } from "./registry.ts";

export const TYPES = "application/vnd.oci.image";
const LAYER = `${TYPES}.layer.v1.tar+gzip`;
const DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/** Speed matters: registry and nodes are near. */
const GZIP_LEVEL = 1;
const DIGEST = /^sha256:[0-9a-f]{64}$/;

export const descriptorSchema = z.object({
  mediaType: z.string(),
  digest: z.string().regex(DIGEST),
  size: z.int().min(0),
});

export type Descriptor = z.infer<typeof descriptorSchema>;

export interface PushedLayer {
  readonly layer: Descriptor;
  /** Of the archive before it was compressed. */
  readonly diffId: string;
}

/** What is in the repository stays; of the same registry it is mounted, else copied. */
export async function copyBlob(source: Registry, target: Registry, { digest, size }: Descriptor) {
  const head = { method: "HEAD", path: `blobs/${digest}`, handled: [404] } as const;
  if ((await target.send(head)).status !== 404) return;
  const isNear = source.place.origin === target.place.origin;
  const from = encodeURIComponent(source.place.repository);
  const query = isNear ? `?mount=${digest}&from=${from}` : "";
  const begun = await target.send({ method: "POST", path: `blobs/uploads/${query}` });
  if (begun.status === 201) return;
  // A body that was opened and not sent would keep its connection.
  const path = withDigest(target.locate(begun), digest);
  const body = await source.open({ method: "GET", path: `blobs/${digest}` });
  const headers = { "content-type": "application/octet-stream", "content-length": size };
  // More would be read as the next request on the connection.
  await target.send({ method: "PUT", path, headers, body: Readable.from(exactly(body, size)) });
}

/** A body of this size. @throws SandboxError unavailable for any other one, before more of it passes */
async function* exactly(body: AsyncIterable<Buffer>, size: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > size) break;
    yield chunk;
  }
  if (bytes !== size) {
    throw new SandboxError(
      "unavailable",
      "a layer of the image is not of the size it is said to be",
    );
  }
}

/** The size is known only at its end: one request with the data, and one with the digest. */
export async function pushLayer(
  target: Registry,
  source: (sink: LayerSink) => Promise<void>,
): Promise<PushedLayer> {
  const begun = await target.send({ method: "POST", path: "blobs/uploads/" });
  const [plain, packed] = [createHash("sha256"), createHash("sha256")];
  let size = 0;
  const gzip = createGzip({ level: GZIP_LEVEL });
  const counted = tap(packed, (bytes) => (size += bytes));
  const piped = pipeline(gzip, counted);
  const noMore = new SandboxError("unavailable", "the registry took no more");
  const refuse = (): never => {
    throw noMore;
  };
  const written = source(async (chunk) => {
    plain.update(chunk);
    if (gzip.destroyed) refuse();
    if (!gzip.write(chunk)) await Promise.race([once(gzip, "drain"), piped]).catch(refuse);
  }).then(
    () => gzip.end(),
    (error: unknown) => {
      // An archive that is cut off must not become one that ended.
      gzip.destroy(error instanceof Error ? error : new Error(String(error)));
      throw error;
    },
  );
  const headers = { "content-type": "application/octet-stream" };
  const path = target.locate(begun);
  const sent = target.send({ method: "PATCH", path, headers, body: counted });
  const [archive, , reply] = await Promise.allSettled([written, piped, sent]);
  // Why a registry took no more is what it answered.
  const isCause = archive.status === "rejected" && archive.reason !== noMore;
  if (isCause) throw archive.reason;
  if (reply.status === "rejected") throw reply.reason;
  if (archive.status === "rejected") throw archive.reason;
  const digest = `sha256:${packed.digest("hex")}`;
  await target.send({ method: "PUT", path: withDigest(target.locate(reply.value), digest) });
  const layer = { mediaType: LAYER, digest, size };
  return { layer, diffId: `sha256:${plain.digest("hex")}` };
}

/** The archive of a layer. @throws SandboxError failed_precondition when it is not what its digest says */
export async function* readLayer(
  source: Registry,
  { digest, size }: Descriptor,
): AsyncGenerator<Buffer, void> {
  const body = await source.open({ method: "GET", path: `blobs/${digest}` });
  const packed = createHash("sha256");
  const gunzip = createGunzip();
  const counted = Readable.from(exactly(body, size));
  const piped = pipeline(
    counted,
    tap(packed, () => undefined),
    gunzip,
  );
  // It is awaited at the end; a reader that stops before ends it.
  piped.catch(() => undefined);
  try {
    const chunks: AsyncIterable<Buffer> = gunzip;
    yield* chunks;
    await piped;
  } catch (error) {
    throw new SandboxError("unavailable", "a layer of the image cannot be read", { cause: error });
  }
  if (`sha256:${packed.digest("hex")}` !== digest) {
    throw new SandboxError(
      "failed_precondition",
      "a layer of the image is not what its digest says",
    );
  }
}

function tap(hash: Hash, count: (bytes: number) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      count(chunk.length);
      done(null, chunk);
    },
  });
}

export async function pushDocument(target: Registry, value: unknown) {
  const body = Buffer.from(JSON.stringify(value), "utf8");
  const digest = digestOf(body);
  const begun = await target.send({ method: "POST", path: "blobs/uploads/" });
  const headers = { "content-type": "application/octet-stream" };
  const path = withDigest(target.locate(begun), digest);
  await target.send({ method: "PUT", path, headers, body });
  return { digest, size: body.length };
}

function withDigest(location: URL, digest: string): URL {
  const url = new URL(location);
  url.searchParams.set("digest", digest);
  return url;
}

export function toOci(descriptor: Descriptor): Descriptor {
  if (descriptor.mediaType !== DOCKER_LAYER) return descriptor;
  return { ...descriptor, mediaType: LAYER };
}

export function digestOf(data: Buffer): string {
  return `sha256:${sha256Hex(data)}`;
}
