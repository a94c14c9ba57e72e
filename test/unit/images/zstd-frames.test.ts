/** Layers of several frames of zstd, as zstd:chunked and programs with many threads write them. */

import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { constants, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { unpackImage } from "../../../src/images/unpack.ts";
import { shellLayer, writeLayout } from "../../support/images/oci-layout.ts";
import { tar } from "../../support/images/tar-writer.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const archive = tar(
  { path: "first", data: "1" },
  { path: "last", data: Buffer.alloc(600_000, "7") },
);

/** Unpacks an image whose second layer is this, and reads the last file of it. */
async function readLast(blob: Buffer): Promise<number> {
  await using folder = await makeTempFolder();
  const layout = join(folder.path, "layout");
  const pack = (packed: Buffer, index: number) => (index === 1 ? blob : packed);
  await writeLayout(layout, { layers: [await shellLayer(), archive], form: "zstd", pack });
  await mkdir(join(folder.path, "draft"));
  const directory = join(folder.path, "draft/root");
  const signal = AbortSignal.timeout(60_000);
  await unpackImage({ layout }, directory, { perlDirectory: PERL_DIRECTORY, signal });
  return (await readFile(join(directory, "last"), "latin1")).replace(/[^7]/g, "").length;
}

function skippable(text: string): Buffer {
  const head = Buffer.from("5a2a4d1800000000", "hex");
  head.writeUInt32LE(text.length, 4);
  return Buffer.concat([head, Buffer.from(text)]);
}

/** A frame of each 100,000 bytes. */
function inFrames(options: Parameters<typeof zstdCompressSync>[1] = {}): Buffer[] {
  const parts = [];
  for (let at = 0; at < archive.length; at += 100_000) {
    parts.push(zstdCompressSync(archive.subarray(at, at + 100_000), options));
  }
  return parts;
}

const checksum = { params: { [constants.ZSTD_c_checksumFlag]: 1 } };
const unsized = { params: { [constants.ZSTD_c_contentSizeFlag]: 0 } };
/** A frame of one block without a byte. */
const empty = Buffer.from("28b52ffd2000010000", "hex");

const CASES: Readonly<Record<string, Buffer>> = {
  "one frame": zstdCompressSync(archive),
  "several frames": Buffer.concat(inFrames()),
  "with checksums": Buffer.concat(inFrames(checksum)),
  "without sizes": Buffer.concat(inFrames(unsized)),
  "with a table at the end": Buffer.concat([...inFrames(), skippable("table of contents")]),
  "with a note before each": Buffer.concat(inFrames().flatMap((frame) => [skippable(""), frame])),
  "with empty frames": Buffer.concat(inFrames().flatMap((frame) => [empty, frame, empty])),
};

test.each(Object.entries(CASES))("a layer is unpacked whole: %s", async (_name, blob) => {
  expect(await readLast(blob)).toBe(600_000);
});

test.each([
  ["is cut off in a frame", Buffer.concat(inFrames()).subarray(0, -3), /cut off/],
  [
    "is cut off in a note",
    Buffer.concat([...inFrames(), skippable("note").subarray(0, -1)]),
    /cut off/,
  ],
  [
    "goes on with something else",
    Buffer.concat([...inFrames(), Buffer.alloc(64, "x")]),
    /not zstd/,
  ],
  ["has blocks of nothing", Buffer.alloc(8 * 2_000, skippable("")), /too small/],
])("a layer that %s is refused", async (_name, blob, reason) => {
  await expect(readLast(blob)).rejects.toThrow(reason);
});
