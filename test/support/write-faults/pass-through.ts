/**
 * A file system whose files lie in a folder of another one. Node can open neither sockets nor devices
 * nor attributes of names: those are only remembered, for as long as this program runs.
 */

import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeSync,
  type BigIntStats,
} from "node:fs";
import { constants as system } from "node:os";
import { join } from "node:path";
import { answerEmpty, OPCODE, words, type FuseAnswer, type FuseRequest } from "../faults/fuse.ts";
import { createAttributeNames } from "./attribute-names.ts";
import {
  attributesReply,
  createWrittenBlocks,
  entriesReply,
  entryReply,
  openReply,
  spaceReply,
  TYPE_BITS,
  type Entry,
  type Special,
  type WrittenBlocks,
} from "./records.ts";

const { ENOSYS, ESTALE, ENXIO, EIO, EOPNOTSUPP } = system.errno;
/** Opens the name itself, whatever it leads to. */
const O_PATH = 0x20_0000;
const ROOT_NODE = 1;
const SPACE_BYTES = 64 * 1024 ** 3;
const REGULAR = 0o100000;
const PERMISSION_BITS = 0o7777;
const NOBODY = 0xffff_ffff;
/** What of an entry is set, and whether by a number or to the present time. */
const SETS = { mode: 1, uid: 2, gid: 4, size: 8, atime: 16, mtime: 32, handle: 64 } as const;
const SETS_NOW = { atime: 128, mtime: 256 } as const;
const SEEK = { 3: "data", 4: "hole" } as const;

const MAX_WRITE_BYTES = 1_048_576;
const MAX_PAGES = 256;
const QUEUE = 64 | (48 << 16);
/** Asynchronous reads, writes of more than a page, parallel looks, of bits that the kernel clears, of more flags. */
const FLAGS = 0x1 | 0x20 | 0x4_0000 | 0x1000_0000 | 0x40_0000 | 0x4000_0000;
/** Mounts of it may show other ids; the 41st flag. */
const MORE_FLAGS = 0x100;

/** A file that the kernel knows by a number. */
interface Node {
  readonly id: number;
  /** Holds its inode, whatever becomes of its names. */
  readonly fd: number;
  readonly inode: bigint;
  parent: Node | undefined;
  name: string;
  lookups: number;
}

export interface PassThrough {
  readonly answer: FuseAnswer;
  /** Where what a node and a name below it mean lies, relative to the top; without a name the node itself. */
  pathOf(node: number, name?: string): string;
}

/** The name that a request has at an offset of its body. */
export function nameAt(body: Buffer, offset: number): string {
  return body.toString("utf8", offset, body.indexOf(0, offset));
}

export function createPassThrough(folder: string): PassThrough {
  process.umask(0);
  const nodes = new Map<number, Node>();
  const byInode = new Map<bigint, Node>();
  const specials = new Map<bigint, Special>();
  const written = new Map<bigint, WrittenBlocks>();
  const attributeNames = createAttributeNames();
  const listings = new Map<number, readonly Entry[]>();
  let lastNode = ROOT_NODE;
  let lastListing = 0;

  function nodeOf(id: number): Node {
    const node = nodes.get(id);
    if (node === undefined) throw Object.assign(new Error("no node"), { errno: -ESTALE });
    return node;
  }

  const placeOf = (node: Node) => `/proc/self/fd/${node.fd}`;
  const below = (id: number, name: string) => `${placeOf(nodeOf(id))}/${name}`;
  const statOf = (node: Node) => fstatSync(node.fd, { bigint: true });
  const blocksOf = (inode: bigint) => {
    const known = written.get(inode) ?? createWrittenBlocks();
    written.set(inode, known);
    return known;
  };

  function addNode(fd: number, place: Pick<Node, "parent" | "name">): [Node, BigIntStats] {
    const stats = fstatSync(fd, { bigint: true });
    const known = byInode.get(stats.ino);
    if (known !== undefined) {
      closeSync(fd);
      Object.assign(known, place);
      return [known, stats];
    }
    const id = nodes.size === 0 ? ROOT_NODE : (lastNode += 1);
    const node = { id, fd, inode: stats.ino, lookups: 0, ...place };
    nodes.set(id, node);
    byInode.set(node.inode, node);
    return [node, stats];
  }

  function lookUp(parent: number, name: string): Buffer {
    const fd = openSync(below(parent, name), O_PATH | constants.O_NOFOLLOW);
    const [node, stats] = addNode(fd, { parent: nodeOf(parent), name });
    node.lookups += 1;
    return entryReply(node.id, stats, specials.get(node.inode));
  }

  /** The number of an inode that is gone may be given to another one. */
  function forgetInode(path: string): bigint {
    const { ino } = lstatSync(path, { bigint: true });
    specials.delete(ino);
    written.delete(ino);
    attributeNames.forget(ino);
    return ino;
  }

  function forget(id: number, count: number): void {
    const node = nodes.get(id);
    if (node === undefined || id === ROOT_NODE) return;
    node.lookups -= count;
    if (node.lookups > 0) return;
    nodes.delete(id);
    byInode.delete(node.inode);
    closeSync(node.fd);
  }

  function make(request: FuseRequest): Buffer {
    const { opcode, node, body } = request;
    if (opcode === OPCODE.symlink) {
      const name = nameAt(body, 0);
      const path = below(node, name);
      symlinkSync(nameAt(body, Buffer.byteLength(name) + 1), path);
      forgetInode(path);
      return lookUp(node, name);
    }
    const isFolder = opcode === OPCODE.mkdir;
    const name = nameAt(body, isFolder ? 8 : 16);
    const path = below(node, name);
    const mode = body.readUInt32LE(0);
    if (isFolder) mkdirSync(path, mode & PERMISSION_BITS);
    else closeSync(openSync(path, constants.O_CREAT | constants.O_EXCL, mode & PERMISSION_BITS));
    const inode = forgetInode(path);
    const type = mode & TYPE_BITS;
    if (!isFolder && type !== REGULAR && type !== 0) {
      specials.set(inode, { type, device: body.readUInt32LE(4) });
    }
    give(path, request);
    return lookUp(node, name);
  }

  function create(request: FuseRequest): Buffer {
    const { node, body } = request;
    const [name, path] = [nameAt(body, 16), below(node, nameAt(body, 16))];
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
    const handle = openSync(path, flags, body.readUInt32LE(4) & PERMISSION_BITS);
    forgetInode(path);
    give(path, request);
    return Buffer.concat([lookUp(node, name), openReply(handle)]);
  }

  function link({ node, body }: FuseRequest): Buffer {
    const { parent, name: source } = nodeOf(Number(body.readBigUInt64LE(0)));
    const name = nameAt(body, 8);
    linkSync(below(parent?.id ?? ROOT_NODE, source), below(node, name));
    return lookUp(node, name);
  }

  function rename({ node, body }: FuseRequest): Buffer {
    const target = Number(body.readBigUInt64LE(0));
    const source = nameAt(body, 8);
    const name = nameAt(body, 8 + Buffer.byteLength(source) + 1);
    renameSync(below(node, source), below(target, name));
    const moved = byInode.get(lstatSync(below(target, name), { bigint: true }).ino);
    if (moved !== undefined) Object.assign(moved, { parent: nodeOf(target), name });
    return Buffer.alloc(0);
  }

  function setAttributes({ node: id, body }: FuseRequest): Buffer {
    const node = nodeOf(id);
    const sets = body.readUInt32LE(0);
    const path = placeOf(node);
    const stats = statOf(node);
    const has = (bit: number) => (sets & bit) !== 0;
    if (has(SETS.size)) {
      const size = Number(body.readBigUInt64LE(16));
      if (has(SETS.handle)) ftruncateSync(Number(body.readBigUInt64LE(8)), size);
      else truncateSync(path, size);
      blocksOf(node.inode).cut(size);
    }
    if (has(SETS.uid) || has(SETS.gid)) {
      const uid = has(SETS.uid) ? body.readUInt32LE(76) : Number(stats.uid);
      chownSync(path, uid, has(SETS.gid) ? body.readUInt32LE(80) : Number(stats.gid));
    }
    if (has(SETS.mode)) {
      const mode = body.readUInt32LE(68) & PERMISSION_BITS;
      if (has(SETS.handle)) fchmodSync(Number(body.readBigUInt64LE(8)), mode);
      else chmodSync(path, mode);
    }
    if (has(SETS.atime) || has(SETS.mtime)) {
      const time = (name: "atime" | "mtime", at: number) => {
        if (has(SETS_NOW[name])) return Date.now() / 1_000;
        if (!has(SETS[name])) return Number(stats[`${name}Ns`]) / 1e9;
        return Number(body.readBigInt64LE(at)) + body.readUInt32LE(56 + (at - 32) / 2) / 1e9;
      };
      utimesSync(path, time("atime", 32), time("mtime", 40));
    }
    return attributesReply(statOf(node), specials.get(node.inode));
  }

  function openNode({ node, body }: FuseRequest): Buffer {
    // The kernel reads what it writes only a part of.
    const isRead = (body.readUInt32LE(0) & 3) === constants.O_RDONLY;
    const flags = isRead ? constants.O_RDONLY : constants.O_RDWR;
    return openReply(openSync(placeOf(nodeOf(node)), flags));
  }

  function openFolder({ node }: FuseRequest): Buffer {
    const path = placeOf(nodeOf(node));
    const entries = readdirSync(path).map((name) => {
      const { ino, mode } = lstatSync(join(path, name), { bigint: true });
      return { name, type: specials.get(ino)?.type ?? Number(mode) };
    });
    const own = [".", ".."].map((name) => ({ name, type: 0o040000 }));
    lastListing += 1;
    listings.set(lastListing, [...own, ...entries]);
    return openReply(lastListing);
  }

  function use({ opcode, node, body }: FuseRequest): Buffer | number {
    const handle = Number(body.readBigUInt64LE(0));
    const offset = Number(body.readBigUInt64LE(8));
    switch (opcode) {
      case OPCODE.readdir:
        return entriesReply(listings.get(handle) ?? [], offset, body.readUInt32LE(16));
      case OPCODE.read: {
        const bytes = Buffer.alloc(body.readUInt32LE(16));
        return bytes.subarray(0, readSync(handle, bytes, 0, bytes.length, offset));
      }
      case OPCODE.write: {
        const count = writeSync(handle, body, 40, body.readUInt32LE(16), offset);
        blocksOf(nodeOf(node).inode).note(offset, count);
        return words([count, 0]);
      }
      default: {
        const { inode } = nodeOf(node);
        const kind = Object.entries(SEEK).find(([key]) => Number(key) === body.readUInt32LE(16));
        const { size } = fstatSync(handle);
        const at = kind && blocksOf(inode).seek(offset, size, kind[1]);
        return at === undefined ? ENXIO : words([at % 2 ** 32, Math.floor(at / 2 ** 32)]);
      }
    }
  }

  function forgetMany({ opcode, node, body }: FuseRequest): Buffer {
    if (opcode === OPCODE.forget) forget(node, Number(body.readBigUInt64LE(0)));
    else {
      for (let index = 0; index < body.readUInt32LE(0); index += 1) {
        const at = 8 + 16 * index;
        forget(Number(body.readBigUInt64LE(at)), Number(body.readBigUInt64LE(at + 8)));
      }
    }
    return Buffer.alloc(0);
  }

  function remove({ opcode, node, body }: FuseRequest): Buffer {
    const path = below(node, nameAt(body, 0));
    if (opcode === OPCODE.rmdir) rmdirSync(path);
    else unlinkSync(path);
    return Buffer.alloc(0);
  }

  function close({ opcode, body }: FuseRequest): Buffer {
    const handle = Number(body.readBigUInt64LE(0));
    if (opcode === OPCODE.release) closeSync(handle);
    else listings.delete(handle);
    return Buffer.alloc(0);
  }

  const named = (request: FuseRequest) =>
    attributeNames.answer(request, nodeOf(request.node).inode);
  const table = new Map<number, FuseAnswer>([
    [OPCODE.init, (request) => initialize(request)],
    [OPCODE.lookup, ({ node, body }) => lookUp(node, nameAt(body, 0))],
    [OPCODE.forget, forgetMany],
    [OPCODE.batchForget, forgetMany],
    [
      OPCODE.getattr,
      ({ node }) => attributesReply(statOf(nodeOf(node)), specials.get(nodeOf(node).inode)),
    ],
    [OPCODE.setattr, setAttributes],
    [
      OPCODE.readlink,
      ({ node }) => {
        const { parent, name } = nodeOf(node);
        return Buffer.from(readlinkSync(below(parent?.id ?? ROOT_NODE, name)));
      },
    ],
    [OPCODE.symlink, make],
    [OPCODE.mknod, make],
    [OPCODE.mkdir, make],
    [OPCODE.create, create],
    [OPCODE.unlink, remove],
    [OPCODE.rmdir, remove],
    [OPCODE.rename, rename],
    [OPCODE.link, link],
    [OPCODE.open, openNode],
    [OPCODE.opendir, openFolder],
    [OPCODE.read, use],
    [OPCODE.readdir, use],
    [OPCODE.write, use],
    [OPCODE.lseek, use],
    [OPCODE.release, close],
    [OPCODE.releasedir, close],
    [OPCODE.statfs, () => spaceReply(SPACE_BYTES)],
    // What the machine loses is a matter of the power cuts.
    [OPCODE.fsync, done],
    [OPCODE.fsyncdir, done],
    [OPCODE.getxattr, named],
    [OPCODE.setxattr, named],
    [OPCODE.listxattr, named],
    [OPCODE.removexattr, named],
    [OPCODE.fallocate, () => EOPNOTSUPP],
    [FLUSH, () => ENOSYS],
  ]);

  addNode(openSync(folder, O_PATH), { parent: undefined, name: "" });
  return {
    answer(request) {
      try {
        return (table.get(request.opcode) ?? answerEmpty)(request);
      } catch (error) {
        return errorNumber(error);
      }
    },
    pathOf(id, name) {
      const path = readlinkSync(placeOf(nodeOf(id))).slice(folder.length + 1);
      return name === undefined ? path : join(path, name);
    },
  };
}

/** At the end of a descriptor; the kernel does not ask again. */
const FLUSH = 25;

const done = () => Buffer.alloc(0);

function give(path: string, { uid, gid }: FuseRequest): void {
  if ((uid !== 0 || gid !== 0) && uid !== NOBODY && gid !== NOBODY) chownSync(path, uid, gid);
}

function initialize({ body }: FuseRequest): Buffer {
  const readAheadBytes = body.readUInt32LE(8);
  const sizes = [MAX_WRITE_BYTES, 1, MAX_PAGES, MORE_FLAGS] as const;
  return words([7, 40, readAheadBytes, FLAGS, QUEUE, ...sizes, ...Array<number>(7).fill(0)]);
}

function errorNumber(error: unknown): number {
  if (error instanceof Error && "errno" in error && typeof error.errno === "number") {
    return Math.abs(error.errno);
  }
  process.stderr.write(`pass-through: ${String(error)}\n`);
  return EIO;
}
