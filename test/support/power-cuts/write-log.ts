/** What was written to a disk, in its order, with the flushes between; and the disk as it is now. */

import { closeSync, openSync, readSync, writeFileSync, writeSync } from "node:fs";
import { z } from "../../../src/common/schema.ts";

/** Of a log; a test writes some hundred megabytes. */
const MAX_LOG_BYTES = 4 * 1024 ** 3;
const ZERO_BYTES = 1024 ** 2;
const ZEROS = Buffer.alloc(ZERO_BYTES);
const POSITION_BYTES = 8;

/** Where the disk and its log are. */
export const logPathsSchema = z.object({
  /** The disk as it is now; a file of its whole size. */
  now: z.string(),
  /** All bytes that were written, one write behind the other. */
  log: z.string(),
  /** The number of entries, eight bytes: another process reads it at any moment. */
  position: z.string(),
  /** The entries, once the log has ended. */
  entries: z.string(),
});
export type LogPaths = z.infer<typeof logPathsSchema>;

/** Offset and length of a write, and where its bytes are in the log: nowhere for zeros; or a flush. */
export const entriesSchema = z.array(
  z.union([z.tuple([z.number(), z.number(), z.number().nullable()]), z.literal("flush")]),
);
export type Entries = z.infer<typeof entriesSchema>;

export interface WriteLog extends Disposable {
  read(offset: number, length: number): Buffer;
  write(offset: number, bytes: Buffer): void;
  zero(offset: number, length: number): void;
  flush(): void;
  /** From now on no entries are made. */
  end(): void;
}

export function openWriteLog(paths: LogPaths): WriteLog {
  const now = openSync(paths.now, "r+");
  const log = openSync(paths.log, "w");
  const count = openSync(paths.position, "r+");
  const entries: Entries = [];
  let logBytes = 0;
  let isRecording = true;

  function enter(entry: Entries[number]): void {
    entries.push(entry);
    const bytes = Buffer.alloc(POSITION_BYTES);
    bytes.writeBigUInt64LE(BigInt(entries.length));
    writeAll(count, bytes, 0);
  }

  return {
    read: (offset, length) => readAll(now, offset, length),
    write(offset, bytes) {
      if (isRecording) {
        if (logBytes + bytes.length > MAX_LOG_BYTES) throw new Error("the log is full");
        writeAll(log, bytes, logBytes);
        enter([offset, bytes.length, logBytes]);
        logBytes += bytes.length;
      }
      writeAll(now, bytes, offset);
    },
    zero(offset, length) {
      if (isRecording) enter([offset, length, null]);
      writeZeros(now, offset, length);
    },
    flush() {
      if (isRecording) enter("flush");
    },
    end() {
      isRecording = false;
      writeFileSync(paths.entries, JSON.stringify(entries));
    },
    [Symbol.dispose]() {
      for (const file of [now, log, count]) closeSync(file);
    },
  };
}

/** What lies behind the end of the file is zeros. */
export function readAll(file: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let done = 0; done < length;) {
    const count = readSync(file, bytes, done, length - done, offset + done);
    if (count === 0) break;
    done += count;
  }
  return bytes;
}

export function writeAll(file: number, bytes: Buffer, offset: number): void {
  for (let done = 0; done < bytes.length;) {
    done += writeSync(file, bytes, done, bytes.length - done, offset + done);
  }
}

export function writeZeros(file: number, offset: number, length: number): void {
  for (let done = 0; done < length; done += ZERO_BYTES) {
    writeAll(file, ZEROS.subarray(0, Math.min(ZERO_BYTES, length - done)), offset + done);
  }
}
