/** Whether a picture is there to its end: providers refuse a conversation for one that is cut. */

import { crc32 } from "node:zlib";
import { isBare, type ImageType } from "./image.ts";
import { hasAllRows } from "./png-rows.ts";

/** Whether the bytes of such a picture, whose header is good, have all its parts. */
export async function isWholeImage(bytes: Buffer, type: ImageType): Promise<boolean> {
  switch (type) {
    case "image/png":
      return isWholePng(bytes);
    case "image/jpeg":
      return isWholeJpeg(bytes);
    case "image/gif":
      // Some encoders pad the file.
      return bytes.findLast((byte) => byte !== 0) === GIF_END;
    case "image/webp":
      return bytes.readUInt32LE(4) + 8 <= bytes.length;
    default:
      return type satisfies never;
  }
}

const JPEG_END = Buffer.from([0xff, 0xd9]);
/** The markers that begin the picture itself, and end it. */
const JPEG_SCANS: ReadonlySet<number> = new Set([0xda, 0xd9]);
const JPEG_START_BYTES = 2;
const GIF_END = 0x3b;
const PNG_SIGNATURE_BYTES = 8;
/** Length and type before the data of a chunk, the checksum behind it. */
const CHUNK_HEAD_BYTES = 8;
const CHUNK_BYTES = 12;
/** Encoders write some hundred; each costs the time of some hundred bytes, also one of none. */
const MAX_CHUNKS = 16_384;

/** Looks behind the segments before the picture, which can hold a preview with an end of its own. */
function isWholeJpeg(bytes: Buffer): boolean {
  let at = JPEG_START_BYTES;
  for (;;) {
    const size = segmentBytes(bytes, at);
    if (size === undefined) return bytes.includes(JPEG_END, at);
    at += size;
  }
}

/** The size of a segment before the picture; undefined behind the last one. */
function segmentBytes(bytes: Buffer, at: number): number | undefined {
  const marker = bytes[at + 1] ?? 0;
  if (at + 4 > bytes.length || bytes[at] !== 0xff || JPEG_SCANS.has(marker)) return undefined;
  // A fill byte.
  if (marker === 0xff) return 1;
  return isBare(marker) ? 2 : 2 + bytes.readUInt16BE(at + 2);
}

/** Walks the chunks to the last one; each has a checksum of its type and data. */
async function isWholePng(bytes: Buffer): Promise<boolean> {
  const data: Buffer[] = [];
  let count = 0;
  for (let at = PNG_SIGNATURE_BYTES; at + CHUNK_BYTES <= bytes.length;) {
    const dataEnd = at + CHUNK_HEAD_BYTES + bytes.readUInt32BE(at);
    count += 1;
    if (dataEnd + 4 > bytes.length || count > MAX_CHUNKS) return false;
    if (crc32(bytes.subarray(at + 4, dataEnd)) !== bytes.readUInt32BE(dataEnd)) return false;
    const type = bytes.toString("latin1", at + 4, at + CHUNK_HEAD_BYTES);
    if (type === "IDAT") data.push(bytes.subarray(at + CHUNK_HEAD_BYTES, dataEnd));
    if (type === "IEND") return hasAllRows(bytes, Buffer.concat(data));
    at = dataEnd + 4;
  }
  return false;
}
