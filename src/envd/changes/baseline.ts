/**
 * What the image of a sandbox contained, as its daemon found it before any program ran: one list in a
 * file that root alone can read, so that it outlives the daemon. It holds, of each directory in the
 * order of a walk, the names with kind, size and time of change; that time no program can set.
 */

import type { Stats } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { SandboxError } from "../../common/errors.ts";
import { createWalk, join, type TreePlace } from "./tree.ts";

/** Some million entries. */
const MAX_BASELINE_BYTES = 64 * 1024 * 1024;
const PATH_HEAD = 6;
const ENTRY_HEAD = 18;
const MODE = 0o600;
const KINDS = ["file", "directory", "symlink", "fifo", "socket", "device"] as const;

export type NodeKind = (typeof KINDS)[number];

/** What tells an entry from what it was. */
export interface KnownEntry {
  readonly kind: NodeKind;
  readonly ctimeMs: number;
  readonly size: number;
}

export interface Baseline {
  /** Writes the list, unless there is one. @throws SandboxError resource_exhausted, unavailable */
  take(): Promise<void>;
  /** @throws SandboxError failed_precondition when there is none, or none of ours. */
  read(): Promise<BaselineReader>;
}

export interface BaselineReader {
  /** The entries of a directory that was there; paths come in the order of the walk. */
  find(path: string): ReadonlyMap<string, KnownEntry>;
}

export function createBaseline(place: TreePlace): Baseline {
  let taking: Promise<void> | undefined;
  return {
    async take() {
      taking ??= write(place);
      try {
        await taking;
      } catch (error) {
        taking = undefined;
        throw error;
      }
    },
    async read() {
      try {
        return createReader(await readFile(place.baselineFile));
      } catch (error) {
        if (error instanceof SandboxError) throw error;
        throw new SandboxError("failed_precondition", "it is not known what the image contained", {
          cause: error,
        });
      }
    },
  };
}

export function kindOf(stats: Stats): NodeKind {
  if (stats.isFile()) return "file";
  if (stats.isDirectory()) return "directory";
  if (stats.isSymbolicLink()) return "symlink";
  if (stats.isFIFO()) return "fifo";
  return stats.isSocket() ? "socket" : "device";
}

export function isUnchanged(known: KnownEntry | undefined, stats: Stats): boolean {
  if (known === undefined || known.kind !== kindOf(stats)) return false;
  // Some file systems change the size of a directory by themselves.
  return (
    known.ctimeMs === stats.ctimeMs && (known.kind === "directory" || known.size === stats.size)
  );
}

async function write(place: TreePlace): Promise<void> {
  const { baselineFile } = place;
  // The mark of an attempt: after one that failed, programs may have run, and a later list would be false.
  try {
    await writeFile(baselineFile, "", { mode: MODE, flag: "wx" });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return;
    throw error;
  }
  const draft = `${baselineFile}.part`;
  const list = await walk(place);
  await rm(draft, { force: true });
  await writeFile(draft, list, { mode: MODE, flag: "wx" });
  await rename(draft, baselineFile);
}

async function walk(place: TreePlace): Promise<Buffer> {
  const tree = createWalk(place);
  const blocks: Buffer[] = [];
  let bytes = 0;
  const paths = [""];
  for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
    const entries = await tree.list(path);
    if (entries === undefined) continue;
    const block = toBlock(path, entries);
    blocks.push(block);
    bytes += block.length;
    if (bytes > MAX_BASELINE_BYTES) {
      throw new SandboxError("resource_exhausted", "the image contains too many files");
    }
    const directories = entries.filter(({ stats }) => stats.isDirectory());
    // The last one is taken first.
    for (const { name } of directories.toReversed()) paths.push(join(path, name));
  }
  return Buffer.concat(blocks);
}

function toBlock(
  path: string,
  entries: readonly { readonly name: string; readonly stats: Stats }[],
): Buffer {
  const names = entries.reduce((sum, { name }) => sum + name.length, 0);
  const block = Buffer.alloc(PATH_HEAD + path.length + names + entries.length * ENTRY_HEAD);
  let at = block.writeUInt16LE(path.length, 0);
  at = block.writeUInt32LE(entries.length, at);
  at += block.write(path, at, "latin1");
  for (const { name, stats } of entries) {
    at = block.writeUInt8(name.length, at);
    at = block.writeUInt8(KINDS.indexOf(kindOf(stats)), at);
    at = block.writeDoubleLE(stats.ctimeMs, at);
    at = block.writeDoubleLE(stats.size, at);
    at += block.write(name, at, "latin1");
  }
  return block;
}

function createReader(list: Buffer): BaselineReader {
  let at = 0;

  function text(length: number): string {
    const end = at + length;
    if (end > list.length) throw new RangeError("the list is cut off");
    const found = list.toString("latin1", at, end);
    at = end;
    return found;
  }

  function readEntry(): [string, KnownEntry] {
    const length = list.readUInt8(at);
    const kind = KINDS[list.readUInt8(at + 1)] ?? "device";
    const ctimeMs = list.readDoubleLE(at + 2);
    const size = list.readDoubleLE(at + 10);
    at += ENTRY_HEAD;
    return [text(length), { kind, ctimeMs, size }];
  }

  return {
    find(path) {
      while (at < list.length) {
        const length = list.readUInt16LE(at);
        const count = list.readUInt32LE(at + 2);
        at += PATH_HEAD;
        const found = text(length);
        const entries = new Map<string, KnownEntry>();
        for (let index = 0; index < count; index += 1) {
          const [name, entry] = readEntry();
          entries.set(name, entry);
        }
        if (found === path) return entries;
      }
      throw new SandboxError("failed_precondition", "the list of the image is not complete");
    },
  };
}
