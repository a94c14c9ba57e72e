/** File systems that programs serve, told over the kernel's device: what is answered, or one empty folder. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, closeSync, constants, openSync, read, writeSync } from "node:fs";
import { userInfo } from "node:os";
import { promisify } from "node:util";
import { causeCode } from "../../../src/common/errors.ts";

const DEVICE = "/dev/fuse";
const MOUNT_TOOL = "/bin/mount";
/** The largest write that a server here may allow, with the head of its request. */
const BUFFER_BYTES = 1_048_576 + 4_096;
const IN_HEAD_BYTES = 40;
const OUT_HEAD_BYTES = 16;
export const ENOENT = 2;
const ENOSYS = 38;
const FOLDER_MODE = 0o040755;

/** Requests of the kernel, by their numbers in its ABI. */
export const OPCODE = {
  lookup: 1,
  forget: 2,
  getattr: 3,
  setattr: 4,
  readlink: 5,
  symlink: 6,
  mknod: 8,
  mkdir: 9,
  unlink: 10,
  rmdir: 11,
  rename: 12,
  link: 13,
  open: 14,
  read: 15,
  write: 16,
  statfs: 17,
  release: 18,
  fsync: 20,
  setxattr: 21,
  getxattr: 22,
  listxattr: 23,
  removexattr: 24,
  init: 26,
  opendir: 27,
  readdir: 28,
  releasedir: 29,
  fsyncdir: 30,
  create: 35,
  interrupt: 36,
  batchForget: 42,
  fallocate: 43,
  lseek: 46,
} as const;
const EMPTY_OPCODES: ReadonlySet<number> = new Set([18, 25, 28, 29, 34, 38]);
const SILENT_OPCODES: ReadonlySet<number> = new Set([
  OPCODE.forget,
  OPCODE.interrupt,
  OPCODE.batchForget,
]);
/** Of a request that its caller took back, or a wait that was broken: the next one can be read. */
const PASSING_CODES: ReadonlySet<string> = new Set(["ENOENT", "EINTR", "EAGAIN"]);

export interface FuseRequest {
  readonly opcode: number;
  /** The file that it is about, by the number that a lookup answered. */
  readonly node: number;
  /** Owner and group of what is made. */
  readonly uid: number;
  readonly gid: number;
  /** The thread whose request it is; 0 for the kernel itself. */
  readonly pid: number;
  /** Valid until the answer is given. */
  readonly body: Buffer;
}

/** The body of a reply, or the number of an error. */
export type FuseAnswer = (request: FuseRequest) => Buffer | number;

export interface FuseMount extends AsyncDisposable {
  readonly path: string;
}

/** Why no such file system can be mounted here; empty where one can. */
export function whyNoFuse(): string {
  if (userInfo().uid !== 0) return "needs root to mount";
  try {
    accessSync(DEVICE, constants.R_OK | constants.W_OK);
    return "";
  } catch {
    // Told to whoever reads the report of the tests.
    return `needs ${DEVICE}`;
  }
}

/** Mounts one at an existing folder, by default an empty one; disposing of it unmounts. */
export async function mountFuse(
  folder: string,
  answer: FuseAnswer = answerEmpty,
  more: readonly string[] = [],
): Promise<FuseMount> {
  const device = openSync(DEVICE, "r+");
  const fixed = "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other";
  const options = [fixed, ...more].join(",");
  const stdio = ["ignore", "ignore", "inherit", device] as const;
  const args = ["-i", "-t", "fuse", "-o", options, "sandbox-mcp-test", folder];
  const mount = spawn(MOUNT_TOOL, args, { stdio: [...stdio] });
  const [code] = await once(mount, "exit");
  if (code !== 0) {
    closeSync(device);
    throw new Error(`mount ended with ${code}`);
  }
  // Before, the device belongs to no file system and nothing can be read from it.
  const served = serve(device, answer);
  return {
    path: folder,
    async [Symbol.asyncDispose]() {
      await promisify(execFile)("umount", ["-l", folder]);
      await served;
      closeSync(device);
    },
  };
}

/** Answers until the kernel ends the connection. */
async function serve(device: number, answer: FuseAnswer): Promise<void> {
  const buffer = Buffer.alloc(BUFFER_BYTES);
  for (;;) {
    const { promise, resolve } = Promise.withResolvers<number>();
    read(device, buffer, 0, buffer.length, null, (error, length) => {
      if (error === null) resolve(length);
      else resolve(PASSING_CODES.has(error.code ?? "") ? -1 : 0);
    });
    const length = await promise;
    if (length < 0) continue;
    if (length < IN_HEAD_BYTES) return;
    const request = {
      opcode: buffer.readUInt32LE(4),
      node: Number(buffer.readBigUInt64LE(16)),
      uid: buffer.readUInt32LE(24),
      gid: buffer.readUInt32LE(28),
      pid: buffer.readUInt32LE(32),
      body: buffer.subarray(IN_HEAD_BYTES, length),
    };
    const answered = answer(request);
    if (SILENT_OPCODES.has(request.opcode)) continue;
    send(device, reply(buffer.readBigUInt64LE(8), answered));
  }
}

/** A request that the kernel has given up meanwhile wants no reply. */
function send(device: number, bytes: Buffer): void {
  try {
    writeSync(device, bytes);
  } catch (error) {
    if (causeCode(error) !== "ENOENT") throw error;
  }
}

/** What a server answers to the requests that it does not know. */
export function answerEmpty({ opcode }: Pick<FuseRequest, "opcode">): Buffer | number {
  switch (opcode) {
    case OPCODE.init:
      return words([7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    case OPCODE.getattr:
      // Valid for no time; then number, size, blocks and times, then mode, links and block size.
      return words([0, 0, 0, 0, 1, 0, ...Array(13).fill(0), FOLDER_MODE, 2, 0, 0, 0, 512, 0]);
    case OPCODE.statfs:
      return words([...Array(10).fill(0), 512, 255, 512, ...Array(7).fill(0)]);
    case OPCODE.opendir:
      return words([1, 0, 0, 0]);
    case OPCODE.lookup:
      return ENOENT;
    default:
      return EMPTY_OPCODES.has(opcode) ? Buffer.alloc(0) : ENOSYS;
  }
}

export function words(values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [index, value] of values.entries()) bytes.writeUInt32LE(value, 4 * index);
  return bytes;
}

function reply(unique: bigint, body: Buffer | number): Buffer {
  const content = typeof body === "number" ? Buffer.alloc(0) : body;
  const head = Buffer.alloc(OUT_HEAD_BYTES);
  head.writeUInt32LE(OUT_HEAD_BYTES + content.length, 0);
  head.writeInt32LE(typeof body === "number" ? -body : 0, 4);
  head.writeBigUInt64LE(unique, 8);
  return Buffer.concat([head, content]);
}
