/** Whether a picture is there to its end: providers refuse a conversation for one that is cut. */

import { crc32 } from "node:zlib";
import type { ImageType } from "./image.ts";

/** Whether the bytes of such a picture, whose header is good, have all its parts. */
export function isWholeImage(bytes: Buffer, type: ImageType): boolean {
  switch (type) {
    case "image/png":
      return isWholePng(bytes);
    case "image/jpeg":
      return bytes.lastIndexOf(JPEG_END) > 0;
    case "image/gif":
      return bytes.at(-1) === GIF_END;
    case "image/webp":
      return bytes.readUInt32LE(4) + 8 <= bytes.length;
    default:
      return type satisfies never;
  }
}

const JPEG_END = Buffer.from([0xff, 0xd9]);
const GIF_END = 0x3b;
const PNG_SIGNATURE_BYTES = 8;
/** Length and type before the data of a chunk, the checksum behind it. */
const CHUNK_HEAD_BYTES = 8;
const CHUNK_BYTES = 12;

/** Walks the chunks to the last one; each has a checksum of its type and data. */
function isWholePng(bytes: Buffer): boolean {
  let hasData = false;
  for (let at = PNG_SIGNATURE_BYTES; at + CHUNK_BYTES <= bytes.length;) {
    const dataEnd = at + CHUNK_HEAD_BYTES + bytes.readUInt32BE(at);
    if (dataEnd + 4 > bytes.length) return false;
    if (crc32(bytes.subarray(at + 4, dataEnd)) !== bytes.readUInt32BE(dataEnd)) return false;
    const type = bytes.toString("latin1", at + 4, at + CHUNK_HEAD_BYTES);
    hasData ||= type === "IDAT";
    if (type === "IEND") return hasData;
    at = dataEnd + 4;
  }
  return false;
}
