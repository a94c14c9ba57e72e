/** Fetches an image into an OCI layout, by skopeo. */

import assert from "node:assert";
import { mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { anySignal } from "../common/any-signal.ts";
import { SandboxError } from "../common/errors.ts";
import { sha256Hex } from "../common/hash.ts";
import { removeTree } from "../common/remove-tree.ts";
import { z } from "../common/schema.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { newDraft } from "../engine/host/drafts.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import type { PulledImage, PullOptions } from "./images.ts";
import { MAX_LAYERS, MAX_MANIFESTS, parse, readManifest } from "./layout.ts";
import { parseReference, toSource, type ImageReference } from "./reference.ts";
import { requirePublicRegistry } from "./registry-address.ts";
import { copyToLayout, inspectRaw, type Confinement, type SkopeoTask } from "./skopeo.ts";

const DEFAULT_MAX_BYTES = 8 * 1024 ** 3;
const WATCH_MS = 500;
const LAYOUT = "layout";

/** What is asked of a source before anything large is fetched. */
export interface FoundImage {
  /** `registry/repository@sha256:…`, or the digest alone for a file. */
  readonly pinned: string;
  /** Of the manifest or the index that the reference means now. */
  readonly digest: string;
  readonly reference: ImageReference;
  /** Of its blobs; undefined for an index. */
  readonly bytes: number | undefined;
}

/**
 * Asks what a reference means now, called while clean-ups of images are kept off: `debian:12`,
 * `docker://ghcr.io/owner/name@sha256:…`, and where files are allowed `oci:DIR[:TAG]` and
 * `docker-archive:FILE[:TAG]`.
 * @throws SandboxError invalid_argument for a malformed reference, and as `fetchImage`
 */
export async function findImage(reference: string, options: PullOptions): Promise<FoundImage> {
  const parsed = parseReference(reference);
  if (parsed.kind !== "registry" && options.allowsFiles !== true) {
    throw new SandboxError("invalid_argument", "only images of a registry can be named here");
  }
  return withFolder(options, async (directory) => {
    const source = toSource(parsed, options.mirrors ?? []);
    if (options.isOfRequest === true) await requirePublicRegistry(source, options.nameServers);
    const raw = await inspectRaw(toTask({ source, directory }, options));
    const text = Buffer.from(raw, "utf8");
    const digest = `sha256:${sha256Hex(text)}`;
    if (parsed.kind === "registry" && parsed.digest !== undefined && parsed.digest !== digest) {
      throw new SandboxError(
        "failed_precondition",
        "the registry sent another image than asked for",
      );
    }
    const bytes = sizeOfBlobs(text);
    if (bytes !== undefined && bytes > maxBytesOf(options)) throw tooLarge(options);
    const pinned = [source.name, digest].filter(Boolean).join("@");
    return { reference: parsed, digest, pinned, bytes };
  });
}

/**
 * Fetches exactly what was found; of an image of several platforms it takes that of this machine.
 * @throws SandboxError not_found, permission_denied when the registry asks for other credentials,
 * resource_exhausted beyond `maxBytes`, unavailable when skopeo is missing (with the command that
 * installs it) or the registry does not answer, canceled
 */
export async function fetchImage(found: FoundImage, options: PullOptions): Promise<PulledImage> {
  const { reference, digest, pinned } = found;
  const directory = await newFolder(options.home);
  const dispose = () => removeTree(directory);
  try {
    const layout = join(directory, LAYOUT);
    const isPinned = reference.kind === "registry";
    const source = toSource(reference, options.mirrors ?? [], isPinned ? digest : undefined);
    const full = new AbortController();
    const signal = anySignal([options.signal, full.signal]);
    const task = toTask({ source, directory }, { ...options, signal });
    const look = (bytes: number) => {
      options.onFetched?.(bytes, found.bytes);
      if (bytes > maxBytesOf(options)) full.abort();
    };
    const watch = setInterval(() => {
      // A directory that is being written to may change while it is measured; the next look counts.
      sizeOf(directory).then(look, () => undefined);
    }, WATCH_MS);
    try {
      await copyToLayout(task, LAYOUT);
    } catch (error) {
      throw full.signal.aborted ? tooLarge(options) : error;
    } finally {
      clearInterval(watch);
    }
    const manifest = await readManifest(layout);
    return { layout, pinned, digest: manifest.digest, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

function toTask(
  { source, directory }: Pick<SkopeoTask, "source" | "directory">,
  options: PullOptions,
): SkopeoTask {
  return {
    source,
    directory,
    credentials: options.credentials,
    authFiles: options.authFiles ?? [],
    maxBytes: maxBytesOf(options),
    confined: confinementOf(source, options),
    signal: options.signal,
    onLine: (line) => options.onProgress?.(quoteUntrusted(line)),
  };
}

function confinementOf(
  { isMirrored }: SkopeoTask["source"],
  options: PullOptions,
): Confinement | undefined {
  if (options.isOfRequest !== true) return undefined;
  const { perlDirectory, mirrors = [], nameServers } = options;
  assert(perlDirectory !== undefined);
  // A registry that the request alone names may not lead skopeo to the places of the owner.
  return { perlDirectory, mirrors: isMirrored ? mirrors : [], nameServers };
}

function maxBytesOf({ maxBytes = DEFAULT_MAX_BYTES }: PullOptions): number {
  return maxBytes;
}

const sized = z.object({ size: z.int().min(0).default(0) });
const sizesSchema = z.object({
  config: sized.optional(),
  layers: z.array(sized).max(MAX_LAYERS).optional(),
  manifests: z.array(z.unknown()).max(MAX_MANIFESTS).optional(),
});

/** What a manifest says of its own size; undefined for an index, which says nothing of that. */
function sizeOfBlobs(document: Buffer): number | undefined {
  const { config, layers } = parse(sizesSchema, document, "its manifest");
  return layers?.reduce((sum, { size }) => sum + size, config?.size ?? 0);
}

function tooLarge(options: PullOptions): SandboxError {
  return new SandboxError(
    "resource_exhausted",
    `the image has more than ${maxBytesOf(options)} bytes`,
  );
}

async function withFolder<T>(
  { home }: PullOptions,
  work: (directory: string) => Promise<T>,
): Promise<T> {
  const directory = await newFolder(home);
  try {
    return await work(directory);
  } finally {
    await removeTree(directory);
  }
}

/** A draft of a layer: what a dead process left is removed with those. */
async function newFolder(home: string): Promise<string> {
  const directory = newDraft(join(home, LAYERS, "image-pull"));
  await mkdir(directory, { recursive: true, mode: 0o700 });
  return directory;
}

/** Bytes of all files; names of blobs are flat, so the tree is shallow. */
async function sizeOf(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  let bytes = 0;
  for (const entry of entries) {
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size;
  }
  return bytes;
}
