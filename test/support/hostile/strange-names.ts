/** Names of files that are not UTF-8, by chance. */

import type { Random } from "../random.ts";

const SLASH = 0x2f;

/** Invalid bytes, halves of characters, escapes as such, and plain text, as bytes of one name. */
export function makeName(random: Random): Buffer {
  const pieces = Array.from({ length: 1 + random.below(8) }, () =>
    random.pick([
      random.bytes(1 + random.below(3)),
      Buffer.of(0x80 + random.below(128)),
      Buffer.from("\\xff"),
      Buffer.from("\\x5c"),
      Buffer.from("\\"),
      Buffer.from("é😀").subarray(0, 1 + random.below(6)),
      Buffer.from("\uFFFD"),
      Buffer.from("a.b"),
    ]),
  );
  const bytes = Buffer.concat(pieces).map((byte) => (byte === 0 || byte === SLASH ? 0x61 : byte));
  return Buffer.concat([bytes, Buffer.from("z")]);
}
