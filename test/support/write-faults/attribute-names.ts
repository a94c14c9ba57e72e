/** Extended attributes of files, which are only remembered. */

import { constants } from "node:os";
import { OPCODE, words, type FuseRequest } from "../faults/fuse.ts";

const { ENODATA, ERANGE, EEXIST } = constants.errno;
/** Set only where there is none, or one. */
const [CREATE, REPLACE] = [1, 2];

export interface AttributeNames {
  answer(request: FuseRequest, inode: bigint): Buffer | number;
  forget(inode: bigint): void;
}

export function createAttributeNames(): AttributeNames {
  const known = new Map<bigint, Map<string, Buffer>>();

  function set(inode: bigint, body: Buffer): Buffer | number {
    const [size, flags] = [body.readUInt32LE(0), body.readUInt32LE(4)];
    const end = body.indexOf(0, 8);
    const name = body.toString("latin1", 8, end);
    const own = known.get(inode) ?? new Map<string, Buffer>();
    if (flags === CREATE && own.has(name)) return EEXIST;
    if (flags === REPLACE && !own.has(name)) return ENODATA;
    own.set(name, Buffer.from(body.subarray(end + 1, end + 1 + size)));
    known.set(inode, own);
    return Buffer.alloc(0);
  }

  return {
    forget: (inode) => void known.delete(inode),
    answer({ opcode, body }, inode) {
      const own = known.get(inode);
      const nameFrom = (offset: number) => body.toString("latin1", offset, body.indexOf(0, offset));
      switch (opcode) {
        case OPCODE.setxattr:
          return set(inode, body);
        case OPCODE.removexattr:
          return own?.delete(nameFrom(0)) === true ? Buffer.alloc(0) : ENODATA;
        case OPCODE.getxattr: {
          const value = own?.get(nameFrom(8));
          return value === undefined ? ENODATA : sized(value, body.readUInt32LE(0));
        }
        default: {
          const names = [...(own?.keys() ?? [])].map((name) => `${name}\0`).join("");
          return sized(Buffer.from(names, "latin1"), body.readUInt32LE(0));
        }
      }
    },
  };
}

/** Who asks for no bytes is told how many there are. */
function sized(value: Buffer, limit: number): Buffer | number {
  if (limit === 0) return words([value.length, 0]);
  return value.length > limit ? ERANGE : value;
}
