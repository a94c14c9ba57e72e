/**
 * A program that serves a disk as a file for a loop device and keeps a log of what is written to it.
 * Arguments: the folder to mount at, and the paths of the log as JSON. A message of its parent ends the
 * log, and the end of its parent's channel ends it.
 */

import { statSync } from "node:fs";
import { answerEmpty, ENOENT, mountFuse, OPCODE, words, type FuseRequest } from "../faults/fuse.ts";
import { logPathsSchema, openWriteLog } from "./write-log.ts";

const DISK_NAME = "disk";

const EIO = 5;
const ROOT_NODE = 1;
const DISK_NODE = 2;
const FOLDER_MODE = 0o040755;
const FILE_MODE = 0o100600;
/** Asynchronous reads, writes of more than a page, requests of more than 32 pages. */
const FLAGS = 0x1 | 0x20 | 0x40_0000;
const MAX_WRITE_BYTES = 1_048_576;
const MAX_PAGES = 256;
const QUEUE = 64 | (48 << 16);
const LONG_SECONDS = 3600;
const SECTOR_BYTES = 512;

const [folder = "", text = "{}"] = process.argv.slice(2);
const paths = logPathsSchema.parse(JSON.parse(text));
const sizeBytes = statSync(paths.now).size;
const log = openWriteLog(paths);
/** Number, size, blocks, times; mode, links, owner, device and block size. */
function attributes(node: number): number[] {
  const isFolder = node === ROOT_NODE;
  const size = isFolder ? 0 : sizeBytes;
  const blocks = Math.ceil(size / SECTOR_BYTES);
  const facts = [isFolder ? FOLDER_MODE : FILE_MODE, isFolder ? 2 : 1, 0, 0, 0, 4096, 0];
  return [node, 0, ...long(size), ...long(blocks), ...Array<number>(9).fill(0), ...facts];
}

function long(value: number): [number, number] {
  return [value % 2 ** 32, Math.floor(value / 2 ** 32)];
}

function answerFile({ opcode, body }: FuseRequest): Buffer | number {
  const offset = Number(body.readBigUInt64LE(8));
  switch (opcode) {
    case OPCODE.read:
      return log.read(offset, Math.max(0, Math.min(body.readUInt32LE(16), sizeBytes - offset)));
    case OPCODE.write: {
      const length = body.readUInt32LE(16);
      log.write(offset, body.subarray(40, 40 + length));
      return words([length, 0]);
    }
    case OPCODE.fallocate:
      log.zero(offset, Math.min(Number(body.readBigUInt64LE(16)), sizeBytes - offset));
      return Buffer.alloc(0);
    default:
      log.flush();
      return Buffer.alloc(0);
  }
}

function answer(request: FuseRequest): Buffer | number {
  const { opcode, node, body } = request;
  switch (opcode) {
    case OPCODE.init:
      return words([
        7,
        31,
        MAX_WRITE_BYTES,
        FLAGS,
        QUEUE,
        MAX_WRITE_BYTES,
        1,
        MAX_PAGES,
        ...Array<number>(8).fill(0),
      ]);
    case OPCODE.getattr:
    case OPCODE.setattr:
      return words([LONG_SECONDS, 0, 0, 0, ...attributes(node)]);
    case OPCODE.lookup:
      if (body.toString("latin1", 0, body.indexOf(0)) !== DISK_NAME) return ENOENT;
      return words([
        DISK_NODE,
        0,
        0,
        0,
        LONG_SECONDS,
        0,
        LONG_SECONDS,
        0,
        0,
        0,
        ...attributes(DISK_NODE),
      ]);
    case OPCODE.open:
      return words([0, 0, 0, 0]);
    case OPCODE.read:
    case OPCODE.write:
    case OPCODE.fallocate:
    case OPCODE.fsync:
      return answerFile(request);
    default:
      return answerEmpty(request);
  }
}

/** A fault of this program is one of the disk. */
function answerSafely(request: FuseRequest): Buffer | number {
  try {
    return answer(request);
  } catch (error) {
    process.stderr.write(`recorder: ${String(error)}\n`);
    return EIO;
  }
}

async function endAll(): Promise<void> {
  await mounted[Symbol.asyncDispose]();
  process.exit(0);
}

const mounted = await mountFuse(folder, answerSafely);
process.on("message", (message) => {
  log.end();
  process.send?.(message);
});
process.once("disconnect", () => {
  void endAll();
});
process.send?.("mounted");
