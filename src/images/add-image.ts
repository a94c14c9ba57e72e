/** Makes an image a layer of a home, once for each digest. */

import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";
import { isCode } from "../common/errors.ts";
import { writeDurably } from "../common/files.ts";
import { z } from "../common/schema.ts";
import { isOpenTree, openTree } from "../common/tree-modes.ts";
import { discardFolder } from "../engine/host/drafts.ts";
import { LAYERS, makeLayer, TREES } from "../engine/storage/layers.ts";
import { whileImagesStay, withImageLock } from "./image-locks.ts";
import type { AddImageOptions, ImageLayer, PulledImage, UnpackedImage } from "./images.ts";
import { fetchImage, findImage } from "./pull.ts";
import { requireSkopeo } from "./skopeo.ts";
import { unpackImage } from "./unpack.ts";

/** A change of what is put into an image, or of how it is unpacked. */
const LAYOUT = 6;
const DIGEST_CHARACTERS = 32;
const FACTS = "image.json";
const MODE_BITS = 0o7777;

/**
 * Fetches and unpacks an image unless its layer is there, and calls `commit` with it while no
 * clean-up removes it; `commit` writes the row that names the layer. Returns what `commit` returns.
 * @throws SandboxError as `findImage` and `unpackImage`
 */
export async function addImage<T>(
  reference: string,
  options: AddImageOptions,
  commit: (image: ImageLayer) => T | Promise<T>,
): Promise<T> {
  requireSkopeo();
  return whileImagesStay(options, async () => {
    const found = await findImage(reference, options);
    const { digest, pinned } = found;
    const get = () => fetchImage(found, options);
    const add = () => addLayer({ digest, pinned, options }, get);
    // Not by the digest alone: a registry that is slow must not hold up the use of another one.
    return commit(await withImageLock(options, `fetch ${pinned}`, add));
  });
}

/**
 * The same for an image that `get` brings; its manifest's digest names the layer.
 * @throws SandboxError as `unpackImage`
 */
export async function addLayout<T>(
  get: () => Promise<PulledImage>,
  options: AddImageOptions,
  commit: (image: ImageLayer) => T | Promise<T>,
): Promise<T> {
  return whileImagesStay(options, async () => {
    const image = await get();
    try {
      const { digest, pinned } = image;
      return await commit(await addLayer({ digest, pinned, options }, async () => image));
    } finally {
      await image[Symbol.asyncDispose]();
    }
  });
}

interface LayerTask {
  /** Of what was asked for: an index, or one manifest. */
  readonly digest: string;
  readonly pinned: string;
  readonly options: AddImageOptions;
}

async function addLayer(task: LayerTask, get: () => Promise<PulledImage>): Promise<ImageLayer> {
  const known = await findLayer(task);
  if (known !== undefined) return known;
  await using image = await get();
  return await withImageLock(task.options, `unpack ${task.digest}`, () => unpackLayer(task, image));
}

async function findLayer({ digest, pinned, options }: LayerTask): Promise<ImageLayer | undefined> {
  const target = targetOf(options, digest);
  const facts = await readFacts(target);
  if (facts === undefined || !(await isAsUnpacked(target, facts))) return undefined;
  options.onProgress?.("the image is there already");
  return toLayer(target, pinned, facts);
}

async function unpackLayer(task: LayerTask, image: PulledImage): Promise<ImageLayer> {
  const { digest, pinned, options } = task;
  // Fetched from another place at the same time.
  const known = await findLayer(task);
  if (known !== undefined) return known;
  const target = targetOf(options, digest);
  // What is in the way has no facts, because a part of it was removed, or has lost modes.
  await discardFolder(target);
  let unpacked: UnpackedImage | undefined;
  await makeLayer(
    target,
    async (draft) => {
      const root = join(draft, TREES.root);
      unpacked = await unpackImage(image, root, options);
      await openTree(root);
      const facts = { ...unpacked, rootMode: await modeOf(root) };
      await writeDurably(join(draft, FACTS), `${JSON.stringify(facts)}\n`);
    },
    options.signal,
  );
  const facts = unpacked ?? (await readFacts(target));
  if (facts === undefined) throw new RangeError("an image has no facts");
  return toLayer(target, pinned, facts);
}

/** The modes of files follow that of their root where `chmod -R` or a copy changed them. */
async function isAsUnpacked(target: string, { rootMode }: Facts): Promise<boolean> {
  const root = join(target, TREES.root);
  return rootMode === undefined ? isOpenTree(root) : (await modeOf(root)) === rootMode;
}

async function modeOf(path: string): Promise<number> {
  return (await lstat(path)).mode & MODE_BITS;
}

function targetOf({ home }: AddImageOptions, digest: string): string {
  const name = digest.slice("sha256:".length).slice(0, DIGEST_CHARACTERS);
  return join(home, LAYERS, `image-${name}-${LAYOUT}`);
}

function toLayer(target: string, pinned: string, facts: UnpackedImage): ImageLayer {
  const { user } = facts.config;
  return {
    ...facts,
    layer: { root: join(target, TREES.root) },
    pinned,
    defaultUser: user ?? "user",
    defaultWorkdir: facts.config.workdir ?? facts.home,
  };
}

const named = z.array(z.object({ name: z.string(), value: z.string() }));
const words = z.array(z.string());

const factsSchema = z.object({
  config: z.object({
    env: named,
    workdir: z.string().optional(),
    user: z.string().optional(),
    entrypoint: words,
    cmd: words,
    exposedPorts: z.array(z.number()),
    labels: named,
  }),
  digest: z.string(),
  bytes: z.number(),
  entries: z.number(),
  notes: words,
  family: z.enum(["debian", "alpine", "fedora", "other"]),
  standIns: words,
  installCommand: z.string().optional(),
  home: z.string(),
  /** Older versions did not write it. */
  rootMode: z.number().optional(),
});

type Facts = z.infer<typeof factsSchema>;

/** What is known of the layer in this folder; undefined where there is none. */
export async function readFacts(directory: string): Promise<Facts | undefined> {
  try {
    return factsSchema.parse(JSON.parse(await readFile(join(directory, FACTS), "utf8")));
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
}
