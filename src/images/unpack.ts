/** Makes one tree of the layers of an image, with what a sandbox needs. */

import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { PassThrough, type Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { SandboxError } from "../common/errors.ts";
import { ID_RANGE } from "../common/privilege.ts";
import { removeTree } from "../common/remove-tree.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { createByteReader } from "./byte-reader.ts";
import { CAPABILITY_NAME, isPlainCapability } from "./capabilities.ts";
import { createContents, type Contents } from "./contents.ts";
import { parseImageConfig, type RawConfig } from "./image-config.ts";
import type { ImageLimits, PulledImage, UnpackedImage, UnpackOptions } from "./images.ts";
import { layoutFault, openLayer, readBlob, readManifest, type Descriptor } from "./layout.ts";
import { readyTree } from "./ready.ts";
import { tarFault } from "./tar-fields.ts";
import { readTar, type TarEntry } from "./tar.ts";
import { createTree, type Metadata, type Tree } from "./tree.ts";
import { writeTree } from "./write-tree.ts";
import { isZstd, splitFrames } from "./zstd-frames.ts";

const DEFAULT_LIMITS: ImageLimits = {
  maxBytes: 20 * 1024 ** 3,
  maxEntries: 500_000,
  maxRatio: 200,
};
/** Small layers of zeros are common, and harmless. */
const FREE_BYTES = 64 * 1024 * 1024;
/** Names, links and attributes, which are kept in memory. */
const MAX_NAMES_BYTES = 128 * 1024 * 1024;
const MAX_CONFIG_BYTES = 4 * 1024 * 1024;
const MAX_ATTRIBUTE_BYTES = 64 * 1024;
const MAX_ATTRIBUTE_NAME = 255;
const UNKNOWN_OWNER = 65_534;
const READ_BYTES = 256 * 1024;

/**
 * Unpacks an image into `directory`, made by this call: the tree of `/`, owners by plain ids (or as
 * this process stores them, without root). Nothing outside `directory` and its neighbours `.contents`
 * and `.steps` changes, whatever the layers hold; a failure leaves a partial tree, which the caller
 * removes with its draft.
 * @throws SandboxError failed_precondition for an image that is damaged, beyond a bound, or cannot
 * be a sandbox (no shell, `/etc` is a link, another processor), with the reason; canceled
 */
export async function unpackImage(
  image: Pick<PulledImage, "layout">,
  directory: string,
  options: UnpackOptions,
): Promise<UnpackedImage> {
  const { layout } = image;
  const { signal, perlDirectory } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const manifest = await readManifest(layout);
  const raw = parseImageConfig(await readBlob(layout, manifest.config, MAX_CONFIG_BYTES));
  if (raw.diffIds.length !== manifest.layers.length) {
    layoutFault("its configuration names other layers than its manifest");
  }
  const contents = await createContents(`${directory}.contents`, limits.maxBytes);
  const state: State = {
    layout,
    limits,
    contents,
    tree: createTree(),
    notes: new Map(),
    entries: 0,
    names: 0,
    signal,
  };
  for (const [index, layer] of manifest.layers.entries()) {
    options.onProgress?.(`unpacking layer ${index + 1} of ${manifest.layers.length}`);
    await applyLayer(state, layer, raw.diffIds[index] ?? "");
  }
  const ready = await readyTree({
    tree: state.tree,
    contents,
    user: raw.user,
    workdir: raw.config.workdir,
    signal,
  });
  noteConfig(state, raw, ready.user);
  options.onProgress?.("writing the files");
  await writeTree({
    root: state.tree.root,
    directory,
    contents: contents.directory,
    steps: `${directory}.steps`,
    perlDirectory,
    signal,
  });
  for (const ending of ["contents", "steps"]) await removeTree(`${directory}.${ending}`);
  const { user, ...rest } = ready;
  return {
    ...rest,
    config: { ...raw.config, user },
    digest: manifest.digest,
    bytes: contents.bytes,
    entries: state.tree.made,
    notes: [...state.notes].map(([text, count]) => `${text} (${count})`),
  };
}

interface State {
  readonly layout: string;
  readonly limits: ImageLimits;
  readonly contents: Contents;
  readonly tree: Tree;
  /** How often each thing was left out. */
  readonly notes: Map<string, number>;
  entries: number;
  names: number;
  readonly signal: AbortSignal;
}

async function applyLayer(state: State, layer: Descriptor, diffId: string): Promise<void> {
  await using file = await openLayer(state.layout, layer, state.signal);
  const hash = createHash("sha256");
  const archive = inflate(file, await formOf(file), state.signal);
  const reader = createByteReader(
    bounded(archive, { hash, most: FREE_BYTES + layer.size * state.limits.maxRatio }),
  );
  try {
    state.tree.nextLayer();
    await readTar(reader, async (entry) => {
      state.signal.throwIfAborted();
      await applyEntry(state, entry, reader);
    });
  } catch (error) {
    state.signal.throwIfAborted();
    throw toImageFault(error);
  } finally {
    archive.destroy();
  }
  if (`sha256:${hash.digest("hex")}` !== diffId) {
    layoutFault(`layer ${layer.digest} does not hold ${diffId.slice(0, 100)}`);
  }
}

function toImageFault(error: unknown): unknown {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (!/^(?:Z_|ERR_|ZSTD_)/.test(code) || error instanceof SandboxError) return error;
  return new SandboxError("failed_precondition", "a layer of the image cannot be decompressed", {
    cause: error,
  });
}

type Form = "gzip" | "zstd" | "plain";

/** By its first bytes: what a descriptor calls it is only a claim. */
export async function formOf(file: FileHandle): Promise<Form> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
  const head = buffer.subarray(0, bytesRead);
  if (head.toString("hex").startsWith("1f8b")) return "gzip";
  return isZstd(head) ? "zstd" : "plain";
}

function inflate(file: FileHandle, form: Form, signal: AbortSignal): Transform {
  const source = file.createReadStream({ start: 0, highWaterMark: READ_BYTES, autoClose: false });
  const target = decompressorOf(form);
  const parts = form === "zstd" ? splitFrames(source) : source;
  // Its end and its failure are those of the target, which is read to its end or destroyed.
  pipeline(parts, target, { signal }).catch(() => undefined);
  return target;
}

function decompressorOf(form: Form): Transform {
  if (form === "gzip") return createGunzip({ chunkSize: READ_BYTES });
  if (form === "zstd") return createZstdDecompress({ chunkSize: READ_BYTES });
  return new PassThrough({ highWaterMark: READ_BYTES });
}

async function* bounded(
  stream: AsyncIterable<Buffer>,
  { hash, most }: { readonly hash: ReturnType<typeof createHash>; readonly most: number },
): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > most) tarFault("it becomes too large when it is decompressed");
    hash.update(chunk);
    yield chunk;
  }
}

async function applyEntry(
  state: State,
  entry: TarEntry,
  reader: ReturnType<typeof createByteReader>,
): Promise<void> {
  const { tree, contents, limits } = state;
  const { kind, path, target } = entry;
  state.entries += 1;
  state.names += path.length + target.length;
  for (const [name, value] of entry.attributes) state.names += name.length + value.length;
  if (Math.max(tree.made, state.entries) > limits.maxEntries)
    tarFault(`the image has more than ${limits.maxEntries} entries`);
  if (state.names > MAX_NAMES_BYTES) tarFault("its names are too long altogether");
  if (tree.applyWhiteout(path)) {
    await reader.skip(entry.dataBytes);
    return;
  }
  if (kind === "device" || kind === "fifo") {
    return note(state, kind === "device" ? "devices were left out" : "named pipes were left out");
  }
  if (kind === "hardlink") return tree.addHardlink(path, target);
  const meta = toMetadata(state, entry);
  if (kind === "directory") tree.addDirectory(path, meta);
  else if (kind === "symlink") tree.addSymlink(path, meta, target);
  else tree.addFile(path, meta, await contents.receive(entry, reader));
}

function note({ notes }: State, text: string): void {
  notes.set(text, (notes.get(text) ?? 0) + 1);
}

/** What a template does not keep of the configuration. */
function noteConfig(state: State, raw: RawConfig, user: string | undefined): void {
  for (const [what, count] of raw.leftOut) if (count > 0) state.notes.set(what, count);
  if (raw.user !== "" && user === undefined) {
    note(state, `its user ${quoteUntrusted(JSON.stringify(raw.user))} has no account`);
  }
}

function toMetadata(state: State, entry: TarEntry): Metadata {
  const { mode, mtimeSeconds } = entry;
  const own = (id: number) => {
    if (id >= 0 && id < ID_RANGE) return id;
    note(state, "owners beyond the ids of a sandbox became nobody");
    return UNKNOWN_OWNER;
  };
  const attributes = entry.attributes.filter(([name, value]) => {
    const isKept = isAllowed(name, value);
    if (!isKept) note(state, "attributes that have no meaning here were left out");
    return isKept;
  });
  return { mode, mtimeSeconds, uid: own(entry.uid), gid: own(entry.gid), attributes };
}

/** Attributes of an overlay would be orders to ours; those of a security module are of another one. */
function isAllowed(name: string, value: Buffer): boolean {
  if (name.length > MAX_ATTRIBUTE_NAME || name.includes("\0")) return false;
  if (value.length > MAX_ATTRIBUTE_BYTES) return false;
  if (name === CAPABILITY_NAME) return isPlainCapability(value);
  return (
    name.startsWith("user.") && name.length > "user.".length && !name.startsWith("user.overlay.")
  );
}
