/** Streams that alternate byte by byte: each byte is a piece of its own. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { segmentName } from "../../../src/spool/folders.ts";
import { measureSpool, readPieces } from "../../../src/spool/reader.ts";
import { encodeHeader, FRAME_HEADER_BYTES, writeFrameHeader } from "../../../src/spool/segment.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const FRAMES = 50_000;
const FRAME_BYTES = FRAME_HEADER_BYTES + 1;

/** A file in which stdout and stderr have a byte by turns. */
async function writeFrames(folder: string, position: number): Promise<void> {
  const frames = Buffer.alloc(FRAMES * FRAME_BYTES);
  for (let index = 0; index < FRAMES; index += 1) {
    const stream = index % 2 === 0 ? "stdout" : "stderr";
    writeFrameHeader(frames, index * FRAME_BYTES, { stream, length: 1 });
    frames[index * FRAME_BYTES + FRAME_HEADER_BYTES] = (position + index) % 251;
  }
  const header = encodeHeader({ stdout: position / 2, stderr: position / 2, note: 0 });
  await writeFile(join(folder, segmentName(position)), Buffer.concat([header, frames]));
}

test("one read has no more pieces than memory would, and the next one goes on behind it", async () => {
  await using folder = await makeTempFolder();
  await writeFrames(folder.path, 0);
  await writeFrames(folder.path, FRAMES);
  expect(await measureSpool(folder.path)).toMatchObject({
    written: { stdout: FRAMES, stderr: FRAMES, note: 0 },
    end: 2 * FRAMES,
  });
  const found: number[] = [];
  const counts: number[] = [];
  while (found.length < 2 * FRAMES) {
    const pieces = await readPieces(folder.path, found.length, 1024 * 1024);
    expect(pieces[0]?.start).toBe(found.length);
    counts.push(pieces.length);
    for (const { bytes } of pieces) found.push(...bytes);
  }
  expect(Math.max(...counts)).toBeLessThanOrEqual(16_384);
  expect(found.every((byte, index) => byte === index % 251)).toBe(true);
});
