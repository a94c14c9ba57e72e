/**
 * Merges layers, one upon the other, into one that does the same upon the image below them. The first
 * pass reads the headers of all layers, newest first, and decides what of each entry is seen; the second
 * one writes directories with their whiteouts, and then the rest as it comes.
 */

import { SandboxError } from "../../common/errors.ts";
import { TAR_END, toTarHeader, type TarHeader } from "../../common/tar-header.ts";
import { createByteReader, type ByteReader } from "../../images/byte-reader.ts";
import { readTar, type TarEntry } from "../../images/tar.ts";
import { copyEntry, type LayerBounds, type LayerSink } from "./layer.ts";

const WHITEOUT = ".wh.";
const OPAQUE = ".wh..wh..opq";

export interface SourceLayer {
  /** The archive from its start; it is read twice. */
  open(): AsyncIterable<Buffer>;
}

interface Decision {
  readonly kind: "directory" | "other" | "whiteout";
  readonly layer: number;
}

/** What is written of one layer. */
interface LayerPlan {
  /** The path under which an entry is written, by its place in the archive. */
  readonly written: Map<number, string>;
  /** Files of this layer that a newer one hides, and the name that such a file gets from its first link. */
  readonly carriers: Map<string, string>;
}

interface Plan {
  readonly decisions: Map<string, Decision>;
  readonly directories: Map<string, TarHeader>;
  /** Directories that hide what the image below has in them. */
  readonly opaque: Set<string>;
  readonly layers: LayerPlan[];
  pathBytes: number;
}

/**
 * Plans the merge of the layers, oldest first; returns what writes the archive to a sink.
 * @throws SandboxError failed_precondition for what no layer of a snapshot has, resource_exhausted beyond
 * a bound; so does the writing
 */
export async function planMerge(
  layers: readonly SourceLayer[],
  bounds: LayerBounds,
): Promise<(sink: LayerSink) => Promise<void>> {
  const newestFirst = layers.toReversed();
  const plan = await makePlan(newestFirst, bounds);
  return async (sink) => {
    let bytes = 0;
    const write = async (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bounds.maxBytes) tooLarge(`${bounds.maxBytes} bytes`);
      if (chunk.length > 0) await sink(chunk);
    };
    await writeDirectories(plan, write);
    for (const [index, layer] of newestFirst.entries()) {
      const layerPlan = plan.layers[index];
      if (layerPlan !== undefined) await writeLayerOf(layer, layerPlan, write);
    }
    await write(TAR_END);
  };
}

async function makePlan(newestFirst: readonly SourceLayer[], bounds: LayerBounds): Promise<Plan> {
  const plan: Plan = {
    decisions: new Map(),
    directories: new Map(),
    opaque: new Set(),
    layers: [],
    pathBytes: 0,
  };
  /** Below them nothing of older layers is seen. */
  const cuts = new Set<string>();
  for (const [index, layer] of newestFirst.entries()) {
    for (const path of await planLayer(plan, { layer, index, cuts }, bounds)) cuts.add(path);
  }
  return plan;
}

interface PlannedLayer {
  readonly layer: SourceLayer;
  readonly index: number;
  readonly cuts: ReadonlySet<string>;
}

/** Returns the cuts of this layer for older ones. */
async function planLayer(
  plan: Plan,
  { layer, index, cuts }: PlannedLayer,
  { maxEntries, maxPathBytes }: LayerBounds,
): Promise<Set<string>> {
  const written = new Map<number, string>();
  const files = new Map<string, number>();
  const carriers = new Map<string, string>();
  const ended = new Set<string>();
  const newCuts = new Set<string>();
  plan.layers.push({ written, carriers });

  function decide(path: string, kind: Decision["kind"]): boolean {
    if (isCut(path, cuts)) return false;
    const known = plan.decisions.get(path);
    if (known?.kind === "directory" && kind !== "directory" && !isTwice(known, kind)) {
      plan.opaque.add(path);
      newCuts.add(path);
    }
    if (known !== undefined) return false;
    plan.decisions.set(path, { kind, layer: index });
    plan.pathBytes += path.length;
    if (plan.decisions.size > maxEntries) tooLarge(`${maxEntries} files`);
    if (plan.pathBytes > maxPathBytes) tooLarge("its names");
    if (kind !== "directory") newCuts.add(path);
    return true;
  }

  /** A name that the archive has twice; a whiteout beside its directory is none. */
  function isTwice(known: Decision, kind: Decision["kind"]): boolean {
    return known.layer === index && kind === "other";
  }

  let ordinal = -1;
  await readEntries(layer, async (entry, path) => {
    ordinal += 1;
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (name === OPAQUE) {
      const directory = path.slice(0, -OPAQUE.length - 1);
      if (!isCut(directory, cuts) && plan.decisions.get(directory)?.kind === "directory") {
        plan.opaque.add(directory);
        newCuts.add(directory);
      }
      return;
    }
    if (name.startsWith(WHITEOUT)) {
      ended.add(path.slice(0, -name.length) + name.slice(WHITEOUT.length));
      return;
    }
    if (entry.kind === "directory") {
      if (decide(path, "directory")) plan.directories.set(path, toHeader(entry, path));
      return;
    }
    if (entry.kind !== "hardlink" && !files.has(path)) files.set(path, ordinal);
    const isSeen = decide(path, "other");
    if (entry.kind !== "hardlink") {
      if (isSeen) written.set(ordinal, path);
      return;
    }
    planLink({ files, carriers, written }, { path, target: entry.target, ordinal, isSeen });
  });
  // After the entries: the one of the same name in this layer is what is seen.
  for (const path of ended) decide(path, "whiteout");
  return newCuts;
}

/** A link whose file is not seen becomes that file; further links then lead to it. */
function planLink(
  { files, carriers, written }: LayerPlan & { readonly files: ReadonlyMap<string, number> },
  link: {
    readonly path: string;
    readonly target: string;
    readonly ordinal: number;
    readonly isSeen: boolean;
  },
): void {
  const file = files.get(link.target);
  if (file === undefined) invalid("a link without its file");
  if (!link.isSeen) return;
  if (written.has(file)) {
    written.set(link.ordinal, link.path);
    return;
  }
  written.set(file, link.path);
  carriers.set(link.target, link.path);
}

/** Whether a directory above the path shows nothing of this layer. */
function isCut(path: string, cuts: ReadonlySet<string>): boolean {
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) {
    if (cuts.has(path.slice(0, at))) return true;
  }
  return false;
}

async function writeDirectories(
  { decisions, directories, opaque }: Plan,
  write: LayerSink,
): Promise<void> {
  // Each comes before what is in it, and hides before it is filled.
  for (const path of [...directories.keys()].toSorted()) {
    const header = directories.get(path);
    if (header !== undefined) await write(toTarHeader(header));
    if (opaque.has(path)) await write(toTarHeader(whiteoutOf(`${path}/${OPAQUE}`)));
  }
  for (const [path, { kind }] of decisions) {
    const at = path.lastIndexOf("/") + 1;
    const name = `${path.slice(0, at)}${WHITEOUT}${path.slice(at)}`;
    if (kind === "whiteout") await write(toTarHeader(whiteoutOf(name)));
  }
}

function whiteoutOf(path: string): TarHeader {
  return { kind: "file", path, mode: 0, uid: 0, gid: 0, size: 0, mtimeSeconds: 0 };
}

async function writeLayerOf(
  layer: SourceLayer,
  { written, carriers }: LayerPlan,
  write: LayerSink,
): Promise<void> {
  let ordinal = -1;
  await readEntries(layer, async (entry, _path, reader) => {
    ordinal += 1;
    const path = written.get(ordinal);
    if (path === undefined) return;
    const target = entry.kind === "hardlink" ? carriers.get(entry.target) : undefined;
    const header = { ...toHeader(entry, path), ...(target !== undefined && { target }) };
    await copyEntry(reader, header, write);
  });
}

/** What the callback leaves of the data of an entry is skipped. */
async function readEntries(
  layer: SourceLayer,
  onEntry: (entry: TarEntry, path: string, reader: ByteReader) => Promise<void>,
): Promise<void> {
  const reader = createByteReader(layer.open());
  await readTar(reader, async (entry) => {
    const path = entry.path.replace(/\/$/, "");
    if (path.split("/").some((name) => ["", ".", ".."].includes(name))) invalid("a path");
    if (entry.kind === "device" || entry.attributes.length > 0 || entry.sparse !== undefined) {
      invalid("what no snapshot has");
    }
    const end = reader.position + entry.dataBytes;
    await onEntry(entry, path, reader);
    await reader.skip(end - reader.position);
  });
}

function toHeader(entry: TarEntry, path: string): TarHeader {
  const { kind, target, mode, uid, gid, mtimeSeconds, dataBytes: size } = entry;
  if (kind === "device") invalid("a device");
  return { kind, path, target, mode: mode & 0o7777, uid, gid, size, mtimeSeconds };
}

function invalid(subject: string): never {
  throw new SandboxError("failed_precondition", `the layers of the sandbox hold ${subject}`);
}

function tooLarge(bound: string): never {
  throw new SandboxError("resource_exhausted", `the layers of the sandbox exceed ${bound}`);
}
