/** Which files `ADD` unpacks in docker: their content decides, not their names. */

import { createReadStream } from "node:fs";
import { pipeline, type Readable, type Transform } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";

const BLOCK_BYTES = 512;
/** Of the sum of a header, for which its own field counts as blanks. */
const SUM = { at: 148, end: 156 } as const;
const BLANK = 32;
const GZIP = "1f8b08";
/** The second one is of a frame to be skipped. */
const ZSTD = /^(?:28b52ffd|5.2a4d18)/;
/** bzip2 and xz, which Node does not read: taken for an archive. */
const UNREAD = /^(?:425a68|fd377a585a00)/;

/** Whether a file is a tar, plain or compressed. */
export async function isArchive(path: string): Promise<boolean> {
  const head = await readBlock(createReadStream(path, { end: BLOCK_BYTES - 1 }));
  const magic = head.toString("hex", 0, 6);
  if (UNREAD.test(magic)) return true;
  if (magic.startsWith(GZIP)) return isTar(await unpackBlock(path, createGunzip()));
  if (ZSTD.test(magic)) return isTar(await unpackBlock(path, createZstdDecompress()));
  return isTar(head);
}

/** Empty for damaged data. */
async function unpackBlock(path: string, decoder: Transform): Promise<Buffer> {
  try {
    return await readBlock(pipeline(createReadStream(path), decoder, () => undefined));
  } catch {
    return Buffer.alloc(0);
  }
}

async function readBlock(source: Readable): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of source) {
    parts.push(Buffer.from(part));
    bytes += parts.at(-1)?.length ?? 0;
    if (bytes >= BLOCK_BYTES) break;
  }
  return Buffer.concat(parts).subarray(0, BLOCK_BYTES);
}

function isTar(block: Buffer): boolean {
  if (block.length < BLOCK_BYTES) return false;
  const told = block.toString("latin1", SUM.at, SUM.end).replaceAll(/[\0 ]+/g, "");
  const sum = block.reduce(
    (total, byte, at) => total + (at >= SUM.at && at < SUM.end ? BLANK : byte),
    0,
  );
  return /^[0-7]+$/.test(told) && Number.parseInt(told, 8) === sum;
}
