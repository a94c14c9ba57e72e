/** Capabilities of files, as an attribute in two versions. @see linux/capability.h */

import { storedId } from "../common/privilege.ts";

export const CAPABILITY_NAME = "security.capability";

/** Version 2, as images have it: the root that it counts for is that of the reader's namespace. */
const VERSION_2 = 0x02;
const VERSION_2_BYTES = 20;
const VERSION_3_BYTES = 24;
const VERSION_AT = 3;
const VERSION_3 = 0x03;

/** Whether it names no root of its own. */
export function isPlainCapability(value: Buffer): boolean {
  return value.length === VERSION_2_BYTES && value[VERSION_AT] === VERSION_2;
}

/** An attribute as this process stores it: where ids are moved on disk, so is root. */
export function storedAttribute(name: string, value: Buffer): Buffer {
  if (name !== CAPABILITY_NAME || storedId(0) === 0) return value;
  const moved = Buffer.alloc(VERSION_3_BYTES);
  value.copy(moved);
  moved[VERSION_AT] = VERSION_3;
  moved.writeUInt32LE(storedId(0), VERSION_2_BYTES);
  return moved;
}
