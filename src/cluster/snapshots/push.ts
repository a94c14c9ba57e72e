/** A snapshot in a registry: the image of its sandbox with one layer on top. */

import { createHash, type Hash } from "node:crypto";
import { once } from "node:events";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { ownArchitecture } from "../../images/layout.ts";
import type { LayerSink } from "./layer.ts";
import type { Registry } from "./registry.ts";

/** Layers of snapshots, one upon the other; a runtime stacks some hundred in all. */
const MAX_DEPTH = 24;
const DEPTH_LABEL = "io.sandbox-mcp.snapshot-depth";
const TYPES = "application/vnd.oci.image";
const MANIFEST = `${TYPES}.manifest.v1+json`;
const ACCEPTED = [
  MANIFEST,
  `${TYPES}.index.v1+json`,
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");
const DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/** Speed matters: registry and nodes are near. */
const GZIP_LEVEL = 1;
const DIGEST = /^sha256:[0-9a-f]{64}$/;

const descriptorSchema = z.object({
  mediaType: z.string(),
  digest: z.string().regex(DIGEST),
  size: z.int().min(0),
});
const manifestSchema = z.object({
  config: descriptorSchema,
  layers: z
    .array(descriptorSchema)
    .min(1)
    .max(MAX_DEPTH + 100),
});
const indexSchema = z.object({
  manifests: z.array(
    descriptorSchema.extend({
      platform: z.object({ os: z.string(), architecture: z.string() }).optional(),
    }),
  ),
});
const configSchema = z.looseObject({
  config: z.looseObject({ Labels: z.record(z.string(), z.string()).nullish() }).optional(),
  rootfs: z.looseObject({ diff_ids: z.array(z.string()) }),
  history: z.array(z.unknown()).optional(),
});

type Descriptor = z.infer<typeof descriptorSchema>;

export interface PushTask {
  /** Where the image of the sandbox is. */
  readonly source: Registry;
  /** Of that image, or its tag. */
  readonly reference: string;
  readonly target: Registry;
  /** Names the image until it is removed, so that the registry keeps it. */
  readonly tag: string;
  readonly createdAtMs: number;
  /** Writes the layer. */
  write(sink: LayerSink): Promise<void>;
}

/**
 * Returns the digest of the new image. What was pushed when it fails is of no image, and the
 * registry's own clean-up removes it.
 * @throws SandboxError unavailable, not_found without the image, failed_precondition for an image
 * that cannot be built upon
 */
export async function pushSnapshot(task: PushTask): Promise<string> {
  const { source, target, tag } = task;
  const manifest = await readManifest(source, task.reference);
  const config = configSchema.safeParse(
    await readDocument(source, `blobs/${manifest.config.digest}`),
  );
  if (!config.success || config.data.rootfs.diff_ids.length !== manifest.layers.length) {
    throw badImage("its configuration");
  }
  const depth = depthOf(config.data) + 1;
  if (depth > MAX_DEPTH) throw badImage(`its depth: ${MAX_DEPTH} snapshots upon each other`);
  for (const layer of manifest.layers) await copyBlob(source, target, layer);
  const { layer, diffId } = await pushLayer(target, task);
  const { created, history } = historyOf(config.data.history, task);
  const facts = {
    ...config.data,
    created,
    config: {
      ...config.data.config,
      Labels: { ...config.data.config?.Labels, [DEPTH_LABEL]: String(depth) },
    },
    rootfs: { type: "layers", diff_ids: [...config.data.rootfs.diff_ids, diffId] },
    ...(history !== undefined && { history }),
  };
  const configuration = await pushDocument(target, facts);
  const document = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: { mediaType: `${TYPES}.config.v1+json`, ...configuration },
      layers: [...manifest.layers.map(toOci), layer],
    }),
  );
  const headers = { "content-type": MANIFEST };
  await target.send({ method: "PUT", path: `manifests/${tag}`, headers, body: document });
  return digestOf(document);
}

/** Removes the image of a tag; false where the registry removes none. */
export async function removeImage(target: Registry, tag: string): Promise<boolean> {
  const headers = { accept: MANIFEST };
  const found = await target.send({
    method: "GET",
    path: `manifests/${tag}`,
    headers,
    handled: [404],
  });
  if (found.status === 404) return true;
  const path = `manifests/${digestOf(found.body)}`;
  const { status } = await target.send({ method: "DELETE", path, handled: [404, 405] });
  return status !== 405;
}

/** For the processor of this front, where an image is of several. */
async function readManifest(source: Registry, reference: string) {
  const document = await readDocument(source, `manifests/${reference}`);
  const index = indexSchema.safeParse(document).data;
  if (index === undefined) return parseManifest(document);
  const architecture = ownArchitecture();
  const found = index.manifests.find(
    ({ platform }) => platform?.os === "linux" && platform.architecture === architecture,
  );
  if (found === undefined) throw badImage("no part for this processor");
  return parseManifest(await readDocument(source, `manifests/${found.digest}`));
}

function parseManifest(document: unknown) {
  const parsed = manifestSchema.safeParse(document);
  if (!parsed.success) throw badImage("its manifest");
  return parsed.data;
}

async function readDocument(source: Registry, path: string): Promise<unknown> {
  const { body } = await source.send({ method: "GET", path, headers: { accept: ACCEPTED } });
  const [, digest] = /(sha256:[0-9a-f]{64})$/.exec(path) ?? [];
  if (digest !== undefined && digestOf(body) !== digest) throw badImage("a digest");
  return parseJson(body);
}

/** What is in the repository stays; of the same registry it is mounted, else copied. */
async function copyBlob(source: Registry, target: Registry, { digest, size }: Descriptor) {
  const head = { method: "HEAD", path: `blobs/${digest}`, handled: [404] } as const;
  if ((await target.send(head)).status !== 404) return;
  const isNear = source.place.origin === target.place.origin;
  const from = encodeURIComponent(source.place.repository);
  const query = isNear ? `?mount=${digest}&from=${from}` : "";
  const begun = await target.send({ method: "POST", path: `blobs/uploads/${query}` });
  if (begun.status === 201) return;
  const body = await source.open({ method: "GET", path: `blobs/${digest}` });
  const path = withDigest(target.locate(begun), digest);
  const headers = { "content-type": "application/octet-stream", "content-length": size };
  await target.send({ method: "PUT", path, headers, body });
}

/** The size is known only at its end: one request with the data, and one with the digest. */
async function pushLayer(target: Registry, task: PushTask) {
  const begun = await target.send({ method: "POST", path: "blobs/uploads/" });
  const [plain, packed] = [createHash("sha256"), createHash("sha256")];
  let size = 0;
  const gzip = createGzip({ level: GZIP_LEVEL });
  const counted = tap(packed, (bytes) => (size += bytes));
  const piped = pipeline(gzip, counted);
  const written = task
    .write(async (chunk) => {
      plain.update(chunk);
      if (gzip.destroyed) throw new SandboxError("unavailable", "the registry took no more");
      if (!gzip.write(chunk)) await Promise.race([once(gzip, "drain"), piped]);
    })
    .then(
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
  if (archive.status === "rejected") throw archive.reason;
  if (reply.status === "rejected") throw reply.reason;
  const digest = `sha256:${packed.digest("hex")}`;
  await target.send({ method: "PUT", path: withDigest(target.locate(reply.value), digest) });
  const layer = { mediaType: `${TYPES}.layer.v1.tar+gzip`, digest, size };
  return { layer, diffId: `sha256:${plain.digest("hex")}` };
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

async function pushDocument(target: Registry, value: unknown) {
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

function historyOf(known: unknown[] | undefined, { createdAtMs, tag }: PushTask) {
  const created = new Date(createdAtMs).toISOString();
  const entry = { created, created_by: "sandbox-mcp snapshot", comment: tag };
  return { created, history: known && [...known, entry] };
}

function depthOf({ config }: z.infer<typeof configSchema>): number {
  const depth = Number(config?.Labels?.[DEPTH_LABEL] ?? 0);
  return Number.isInteger(depth) && depth >= 0 ? depth : MAX_DEPTH;
}

function toOci(descriptor: Descriptor): Descriptor {
  if (descriptor.mediaType !== DOCKER_LAYER) return descriptor;
  return { ...descriptor, mediaType: `${TYPES}.layer.v1.tar+gzip` };
}

function digestOf(data: Buffer): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}

function badImage(what: string): SandboxError {
  return new SandboxError(
    "failed_precondition",
    `no snapshot can be made upon the image of this sandbox: ${what}`,
  );
}
