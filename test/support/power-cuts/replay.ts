/**
 * A disk as it may be after a power cut at any moment of its log: all that was written before the last
 * flush is there, and of what was written since any part may be, whole or torn.
 */

import { closeSync, constants, copyFileSync, openSync, readFileSync } from "node:fs";
import { z } from "../../../src/common/schema.ts";
import { createRandom } from "../random.ts";
import {
  entriesSchema,
  readAll,
  writeAll,
  writeZeros,
  type Entries,
  type LogPaths,
} from "./write-log.ts";

const BLOCK_BYTES = 4096;
const SECTOR_BYTES = 512;

/** Which disk a cut leaves. */
export const cutSchema = z.object({
  /** Entries before it were made before the cut. */
  position: z.number(),
  /** What is there of what was written since the last flush: `some` and how torn follows from the seed. */
  unflushed: z.enum(["none", "all", "some"]),
  seed: z.number(),
  /** A disk that lies: nothing that was written since the log began is there, flushed or not. */
  ignoresFlushes: z.boolean().optional(),
});
export type Cut = Readonly<z.infer<typeof cutSchema>>;

export interface Replay extends Disposable {
  /** Makes the file of the disk that a cut leaves. Cuts come in the order of their positions. */
  makeCut(cut: Cut, path: string): void;
}

/** Begins with a copy of the disk as it was when the log began, which then goes along with the cuts. */
export function openReplay(paths: LogPaths, past: string): Replay {
  const entries = entriesSchema.parse(JSON.parse(readFileSync(paths.entries, "utf8")));
  const log = openSync(paths.log, "r");
  const disk = openSync(past, "r+");
  let rolled = 0;

  /** Entries are written in their order; those that are not picked are left out. */
  function write(file: number, part: Entries, put: typeof writeAll): void {
    for (const entry of part) {
      if (entry === "flush") continue;
      const [offset, length, at] = entry;
      if (at !== null) put(file, readAll(log, at, length), offset);
      else if (put === writeAll) writeZeros(file, offset, length);
      else put(file, Buffer.alloc(length), offset);
    }
  }

  return {
    makeCut(cut, path) {
      const position = Math.min(cut.position, entries.length);
      const isNothing = cut.ignoresFlushes === true || position === 0;
      const durable = isNothing ? 0 : entries.lastIndexOf("flush", position - 1) + 1;
      if (durable < rolled) throw new Error(`a cut at ${durable} after one at ${rolled}`);
      write(disk, entries.slice(rolled, durable), writeAll);
      rolled = durable;
      copyFileSync(past, path, constants.COPYFILE_FICLONE);
      if (cut.unflushed === "none") return;
      const file = openSync(path, "r+");
      const put = cut.unflushed === "all" ? writeAll : createTearing(cut.seed);
      write(file, entries.slice(durable, position), put);
      closeSync(file);
    },
    [Symbol.dispose]() {
      for (const file of [log, disk]) closeSync(file);
    },
  };
}

/** Writes all of what it is given, a part of it, or nothing. */
function createTearing(seed: number): typeof writeAll {
  const random = createRandom(seed);
  const chance = { dropped: random.pick([10, 50, 90]), torn: random.pick([0, 20]) };
  const unit = random.pick([SECTOR_BYTES, BLOCK_BYTES]);
  return (file, bytes, offset) => {
    if (random.below(100) < chance.dropped) return;
    // The first block of a disk holds what file systems write in one piece.
    const isWhole = offset < BLOCK_BYTES || random.below(100) >= chance.torn;
    const step = isWhole ? bytes.length : unit;
    for (let at = 0; at < bytes.length; at += step) {
      if (isWhole || random.once(2)) writeAll(file, bytes.subarray(at, at + step), offset + at);
    }
  };
}
