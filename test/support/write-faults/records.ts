/** What a file system that a program serves tells the kernel of files and folders, in its records. */

import type { BigIntStats } from "node:fs";
import { words } from "../faults/fuse.ts";

/** Nothing changes but through the kernel that is told it. */
const LONG_SECONDS = 3_600n;
/** A number that only a look at the entry tells. */
const UNKNOWN_INODE = 0xffff_ffffn;
const NS_PER_S = 1_000_000_000n;
const BLOCK_BYTES = 4_096;
export const TYPE_BITS = 0o170000;
const DIRENT_HEAD_BYTES = 24;
const ALIGN_BYTES = 8;

/** What an entry is besides what the folder below can hold: its type, and the number of a device. */
export interface Special {
  readonly type: number;
  readonly device: number;
}

/** Number, size, blocks and times; mode, links, owner, device and block size. */
function attributes(stats: BigIntStats, special: Special | undefined): Buffer {
  const bytes = Buffer.alloc(88);
  const longs = [
    stats.ino,
    special === undefined ? stats.size : 0n,
    stats.blocks,
    stats.atimeNs / NS_PER_S,
    stats.mtimeNs / NS_PER_S,
    stats.ctimeNs / NS_PER_S,
  ];
  for (const [index, value] of longs.entries()) bytes.writeBigUInt64LE(value, 8 * index);
  const mode = Number(stats.mode);
  const shorts = [
    Number(stats.atimeNs % NS_PER_S),
    Number(stats.mtimeNs % NS_PER_S),
    Number(stats.ctimeNs % NS_PER_S),
    special === undefined ? mode : (mode & ~TYPE_BITS) | special.type,
    Number(stats.nlink),
    Number(stats.uid),
    Number(stats.gid),
    special?.device ?? 0,
    BLOCK_BYTES,
    0,
  ];
  for (const [index, value] of shorts.entries()) bytes.writeUInt32LE(value, 48 + 4 * index);
  return bytes;
}

function long(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

export function attributesReply(stats: BigIntStats, special: Special | undefined): Buffer {
  return Buffer.concat([long(LONG_SECONDS), words([0, 0]), attributes(stats, special)]);
}

/** Of a name that leads to a node. */
export function entryReply(node: number, stats: BigIntStats, special: Special | undefined): Buffer {
  const times = [long(LONG_SECONDS), long(LONG_SECONDS), words([0, 0])];
  return Buffer.concat([long(BigInt(node)), long(0n), ...times, attributes(stats, special)]);
}

/** The pages of a file stay in the kernel's cache from one opening to the next. */
const KEEP_CACHE = 2;

export function openReply(handle: number): Buffer {
  return Buffer.concat([long(BigInt(handle)), words([KEEP_CACHE, 0])]);
}

export interface Entry {
  readonly name: string;
  /** As in the mode of a file. */
  readonly type: number;
}

/** The entries from an index on that fit. */
export function entriesReply(entries: readonly Entry[], from: number, limit: number): Buffer {
  const parts: Buffer[] = [];
  let length = 0;
  for (const [index, { name, type }] of entries.slice(from).entries()) {
    const bytes = Buffer.from(name);
    const size = DIRENT_HEAD_BYTES + bytes.length;
    const padding = (ALIGN_BYTES - (size % ALIGN_BYTES)) % ALIGN_BYTES;
    if (length + size + padding > limit) break;
    const head = [long(UNKNOWN_INODE), long(BigInt(from + index + 1))];
    // The type of a directory entry is that of the mode, without its last bits.
    const kind = words([bytes.length, (type & TYPE_BITS) >> 12]);
    parts.push(...head, kind, bytes, Buffer.alloc(padding));
    length += size + padding;
  }
  return Buffer.concat(parts);
}

/** A disk that is far from full, whatever the one below has. */
export function spaceReply(totalBytes: number): Buffer {
  const blocks = BigInt(totalBytes / BLOCK_BYTES);
  const free = (blocks * 3n) / 4n;
  const files = 10_000_000n;
  const longs = [blocks, free, free, files, files].map((value) => long(value));
  return Buffer.concat([
    ...longs,
    words([BLOCK_BYTES, 255, BLOCK_BYTES, 0, ...Array<number>(6).fill(0)]),
  ]);
}

/** Where data is in a sparse file, by what was written to it. */
export interface WrittenBlocks {
  note(at: number, length: number): void;
  cut(size: number): void;
  /** The first place of the kind from an offset on; undefined when there is none before the end. */
  seek(from: number, size: number, kind: "data" | "hole"): number | undefined;
}

export function createWrittenBlocks(): WrittenBlocks {
  const blocks = new Set<number>();
  return {
    note(at, length) {
      const last = Math.floor((at + length - 1) / BLOCK_BYTES);
      for (let block = Math.floor(at / BLOCK_BYTES); block <= last; block += 1) blocks.add(block);
    },
    cut(size) {
      for (const block of blocks) if (block * BLOCK_BYTES >= size) blocks.delete(block);
    },
    seek(from, size, kind) {
      if (from >= size) return undefined;
      const first = Math.floor(from / BLOCK_BYTES);
      if (kind === "hole") {
        let block = first;
        while (blocks.has(block)) block += 1;
        return Math.min(size, Math.max(from, block * BLOCK_BYTES));
      }
      if (blocks.has(first)) return from;
      const later = [...blocks].filter((block) => block > first);
      if (later.length === 0) return undefined;
      return later.reduce((left, right) => Math.min(left, right)) * BLOCK_BYTES;
    },
  };
}
