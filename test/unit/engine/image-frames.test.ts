/** Streams of images become files, and what is no such stream does not. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { writeFrames } from "../../../src/engine/gvisor/image-frames.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const HEAD_BYTES = 17;
const MAX_BYTES = 1024 * 1024;

interface Frame {
  readonly index?: number;
  readonly offset?: number;
  readonly body?: Buffer | string;
}

function frame(kind: string, { index = 0, offset = 0, body = "" }: Frame = {}): Buffer {
  const bytes = Buffer.from(body);
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(kind, "latin1");
  head.writeUInt32LE(index, 1);
  head.writeBigUInt64LE(BigInt(offset), 5);
  head.writeUInt32LE(bytes.length, 13);
  return Buffer.concat([head, bytes]);
}

const FILE = frame("F", { body: "a" });
const END = frame("E");

/** In pieces that cut frames anywhere. */
function streamOf(frames: readonly Buffer[], pieceBytes = 5): Readable {
  const all = Buffer.concat(frames);
  const count = Math.ceil(all.length / pieceBytes);
  return Readable.from(
    Array.from({ length: count }, (_, index) =>
      all.subarray(index * pieceBytes, (index + 1) * pieceBytes),
    ),
  );
}

test("writes, in any order and again, and lengths become files", async () => {
  await using folder = await makeTempFolder();
  const frames = [
    FILE,
    frame("F", { index: 1, body: "pages_meta.img" }),
    frame("W", { index: 1, offset: 3, body: "def" }),
    frame("W", { body: "0123456789" }),
    frame("W", { index: 1, body: "abc" }),
    frame("W", { offset: 4, body: "AB" }),
    frame("T", { offset: 8 }),
    END,
  ];
  await writeFrames(streamOf(frames), folder.path);
  expect((await readdir(folder.path)).toSorted()).toEqual(["a", "pages_meta.img"]);
  expect(await readFile(join(folder.path, "a"), "utf8")).toBe("0123AB67");
  expect(await readFile(join(folder.path, "pages_meta.img"), "utf8")).toBe("abcdef");
});

test.for([
  ["nothing", []],
  ["no end", [FILE]],
  ["a part of a frame", [FILE, END.subarray(0, -1)]],
  ["more after the end", [FILE, END, END]],
  ["a file that is not there", [frame("W", { body: "x" }), END]],
  ["a name that leads out", [frame("F", { body: "../a" }), END]],
  ["a name with a folder", [frame("F", { body: "a/b" }), END]],
  ["no name", [frame("F"), END]],
  ["another kind", [FILE, frame("X"), END]],
  ["too many files", [...Array.from({ length: 17 }, (_, n) => frame("F", { body: `f${n}` })), END]],
] as const)("%s is refused", async ([, frames]) => {
  await using folder = await makeTempFolder();
  await expect(writeFrames(streamOf(frames), folder.path)).rejects.toThrow("no stream of frames");
});

test("a frame that is too long is refused before it is there", async () => {
  await using folder = await makeTempFolder();
  const head = frame("W", { body: Buffer.alloc(MAX_BYTES + 1) }).subarray(0, HEAD_BYTES);
  await expect(writeFrames(streamOf([FILE, head]), folder.path)).rejects.toThrow("no stream");
});
