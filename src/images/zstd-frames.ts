/**
 * The frames of a zstd stream. A layer may have many: zstd:chunked has one or more for each file. Node's
 * decompression leaves out whatever follows the end of a frame in the same write.
 * @see https://www.rfc-editor.org/rfc/rfc8878#section-3.1
 */

import { createByteBuffer } from "../common/bytes.ts";
import { createByteReader, type ByteReader } from "./byte-reader.ts";
import { tarFault } from "./tar-fields.ts";

/** Each block costs time, whatever it holds: in the mean of all but the first ones they have so many bytes. */
const LEAST_BLOCK_BYTES = 32;
const FREE_BLOCKS = 1_000;
const PIECE_BYTES = 256 * 1024;
const MAGIC_BYTES = 4;
const MAGIC = "28b52ffd";
/** Data for others, such as the table of contents of zstd:chunked. */
const SKIPPABLE_PATTERN = /^5[0-9a-f]2a4d18$/;
const SKIPPABLE_SIZE_BYTES = 4;
/** Bits of a frame's descriptor. */
const IS_SINGLE_SEGMENT = 0x20;
const HAS_CHECKSUM = 0x04;
const CHECKSUM_BYTES = 4;
/** By the two lowest bits of the descriptor. */
const DICTIONARY_BYTES = [0, 1, 2, 4] as const;
/** By the two highest bits; the first is 1 in a single segment. */
const CONTENT_SIZE_BYTES = [0, 2, 4, 8] as const;
const BLOCK_HEADER_BYTES = 3;
/** One byte, which the block repeats. */
const RUN_LENGTH = 1;

/** Whether these bytes begin a stream of zstd. */
export function isZstd(head: Buffer): boolean {
  const magic = head.toString("hex", 0, MAGIC_BYTES);
  return magic === MAGIC || SKIPPABLE_PATTERN.test(magic);
}

/**
 * The stream in pieces of which none has parts of two frames, without frames that can be skipped.
 * @throws SandboxError failed_precondition for what is no such stream, is cut off or has too many blocks
 */
export async function* splitFrames(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const reader = createByteReader(source);
  let blocks = 0;
  const countBlock = () => {
    blocks += 1;
    const most = FREE_BLOCKS + reader.position / LEAST_BLOCK_BYTES;
    if (blocks > most) tarFault("its blocks of zstd are too small");
  };
  for (;;) {
    const magic = await reader.take(MAGIC_BYTES);
    if (magic === undefined) return;
    if (!isZstd(magic)) tarFault("something that is not zstd follows a frame of zstd");
    countBlock();
    if (magic.toString("hex") === MAGIC) yield* readFrame(reader, magic, countBlock);
    else await reader.skip((await reader.require(SKIPPABLE_SIZE_BYTES)).readUInt32LE());
  }
}

async function* readFrame(
  reader: ByteReader,
  magic: Buffer,
  countBlock: () => void,
): AsyncGenerator<Buffer> {
  const gathered = createByteBuffer();
  const descriptor = await reader.require(1);
  const flags = descriptor.readUInt8();
  for (const part of [magic, descriptor, await reader.require(restOfHeader(flags))]) {
    gathered.add(part);
  }
  for (let isLast = false; !isLast;) {
    countBlock();
    const head = await reader.require(BLOCK_HEADER_BYTES);
    const facts = head.readUIntLE(0, BLOCK_HEADER_BYTES);
    isLast = (facts & 1) === 1;
    const isRun = ((facts >> 1) & 3) === RUN_LENGTH;
    gathered.add(head);
    gathered.add(await reader.require(isRun ? 1 : facts >> 3));
    if (gathered.length >= PIECE_BYTES) yield gathered.take();
  }
  if ((flags & HAS_CHECKSUM) !== 0) gathered.add(await reader.require(CHECKSUM_BYTES));
  if (gathered.length > 0) yield gathered.take();
}

/** How many bytes of a frame's header follow its descriptor. */
function restOfHeader(flags: number): number {
  const isSingle = (flags & IS_SINGLE_SEGMENT) !== 0;
  const sizeBytes = CONTENT_SIZE_BYTES[flags >> 6] ?? 0;
  const windowBytes = isSingle ? 0 : 1;
  const contentBytes = isSingle ? Math.max(sizeBytes, 1) : sizeBytes;
  return windowBytes + (DICTIONARY_BYTES[flags & 3] ?? 0) + contentBytes;
}
