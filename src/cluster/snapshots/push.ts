/** A snapshot in a registry: the image of its sandbox with one layer on top. */

import { SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { ownArchitecture } from "../../images/layout.ts";
import {
  copyBlob,
  descriptorSchema,
  digestOf,
  pushDocument,
  pushLayer,
  readLayer,
  toOci,
  TYPES,
  type PushedLayer,
} from "./blobs.ts";
import type { LayerBounds, LayerSink } from "./layer.ts";
import { planMerge } from "./merge-layers.ts";
import type { Registry } from "./registry.ts";

/** Layers of snapshots upon each other, before they are merged; a runtime stacks some hundred in all. */
const MAX_DEPTH = 24;
const DEPTH_LABEL = "io.sandbox-mcp.snapshot-depth";
/** An image of its own for each: one that is removed takes no other of the same files with it. */
const TAG_LABEL = "io.sandbox-mcp.snapshot";
const MANIFEST = `${TYPES}.manifest.v1+json`;
const ACCEPTED = [
  MANIFEST,
  `${TYPES}.index.v1+json`,
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");
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

export interface PushTask {
  /** Where the image of the sandbox is. */
  readonly source: Registry;
  /** Of that image, or its tag. */
  readonly reference: string;
  readonly target: Registry;
  /** Names the image until it is removed, so that the registry keeps it. */
  readonly tag: string;
  readonly createdAtMs: number;
  /** Of the layer; what is merged may be so much for each of its layers. */
  readonly bounds: LayerBounds;
  /** Writes the layer. */
  write(sink: LayerSink): Promise<void>;
}

/**
 * Returns the digest of the new image. What was pushed when it fails is of no image, and the
 * registry's own clean-up removes it.
 * @throws SandboxError unavailable, failed_precondition for an image that is gone, or that cannot be
 * built upon
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
  const known = manifest.layers.map((layer, index) => ({
    layer,
    diffId: config.data.rootfs.diff_ids[index] ?? "",
  }));
  const depth = depthOf(config.data, known.length);
  const isMerged = depth >= MAX_DEPTH;
  const kept = isMerged ? known.slice(0, -depth) : known;
  for (const { layer } of kept) await copyBlob(source, target, layer);
  const changes = await pushLayer(target, async (sink) => task.write(sink));
  const top = isMerged ? await pushMerged(task, known.slice(-depth), changes) : changes;
  const layers = [...kept, top];
  const { created, history } = historyOf(config.data.history, task, isMerged ? depth : 0);
  const labels = { [DEPTH_LABEL]: String(isMerged ? 1 : depth + 1), [TAG_LABEL]: tag };
  const facts = {
    ...config.data,
    created,
    config: { ...config.data.config, Labels: { ...config.data.config?.Labels, ...labels } },
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    ...(history !== undefined && { history }),
  };
  const configuration = await pushDocument(target, facts);
  const document = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: { mediaType: `${TYPES}.config.v1+json`, ...configuration },
      layers: layers.map(({ layer }) => toOci(layer)),
    }),
  );
  const headers = { "content-type": MANIFEST };
  await target.send({ method: "PUT", path: `manifests/${tag}`, headers, body: document });
  const digest = digestOf(document);
  await requireKept(target, digest);
  return digest;
}

/** A proxy may answer for the registry with success. @throws SandboxError unavailable */
async function requireKept(target: Registry, digest: string): Promise<void> {
  const headers = { accept: MANIFEST };
  const path = `manifests/${digest}`;
  const { body } = await target.send({ method: "GET", path, headers, handled: [404] });
  if (digestOf(body) === digest) return;
  throw new SandboxError("unavailable", "the registry does not have the image that it took");
}

/** One layer in the place of the snapshots of the source and of the changes upon them. */
async function pushMerged(
  { source, target, bounds }: PushTask,
  below: readonly PushedLayer[],
  changes: PushedLayer,
): Promise<PushedLayer> {
  const layers = [
    ...below.map(({ layer }) => ({ open: () => readLayer(source, layer) })),
    { open: () => readLayer(target, changes.layer) },
  ];
  const maxBytes = bounds.maxBytes * MAX_DEPTH;
  // Before the upload begins: a registry does not wait long for its data.
  return pushLayer(target, await planMerge(layers, { ...bounds, maxBytes }));
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
  const headers = { accept: ACCEPTED };
  const { status, body } = await source.send({ method: "GET", path, headers, handled: [404] });
  if (status === 404) throw badImage("the registry does not have it");
  const [, digest] = /(sha256:[0-9a-f]{64})$/.exec(path) ?? [];
  if (digest !== undefined && digestOf(body) !== digest) throw badImage("a digest");
  return parseJson(body);
}

/** The last entries that are replaced are those of snapshots. */
function historyOf(known: unknown[] | undefined, { createdAtMs, tag }: PushTask, replaced: number) {
  const created = new Date(createdAtMs).toISOString();
  const entry = { created, created_by: "sandbox-mcp snapshot", comment: tag };
  const kept = known?.slice(0, known.length - replaced);
  return { created, history: kept && [...kept, entry] };
}

/** How many of the layers are of snapshots; below them is a template. */
function depthOf({ config }: z.infer<typeof configSchema>, layers: number): number {
  const depth = Number(config?.Labels?.[DEPTH_LABEL] ?? 0);
  if (Number.isInteger(depth) && depth >= 0 && depth < layers) return depth;
  throw badImage("its number of snapshots");
}

function badImage(what: string): SandboxError {
  return new SandboxError(
    "failed_precondition",
    `no snapshot can be made upon the image of this sandbox: ${what}`,
  );
}
