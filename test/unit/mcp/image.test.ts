/** Pictures by their own bytes: true ones, broken ones, and texts that begin like one. */

import { crc32, deflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { imageType, readImage } from "../../../src/mcp/pictures/image.ts";
import { isWholeImage } from "../../../src/mcp/pictures/whole-image.ts";

function png(width: number, height: number): Buffer {
  const header = Buffer.from(
    "89504e470d0a1a0a0000000d494844520000000000000000080600000000000000",
    "hex",
  );
  header.writeUInt32BE(width, 16);
  header.writeUInt32BE(height, 20);
  return header;
}

const hex = (digits: string) => Buffer.from(digits.replaceAll(" ", ""), "hex");
const JPEG = hex(
  "ffd8 ffe0 0004 0000 ffff c4 0003 00 ffc2 0011 08 0102 0304 03 000000000000000000",
);
const GIF = hex("474946383961 0500 0700 80 00 00 000000 ffffff 2c00");
const LOSSY = hex("52494646 00000000 57454250 56503820 00000000 000000 9d012a 0a40 0b80");
const LOSSLESS = hex("52494646 00000000 57454250 5650384c 00000000 2f 04c00100 0000000000");
const EXTENDED = hex("52494646 00000000 57454250 56503858 0a000000 00000000 ff0300 000100");

test.for([
  { name: "PNG", bytes: png(3, 9_000), facts: ["image/png", 3, 9_000] },
  { name: "JPEG after tables and fill bytes", bytes: JPEG, facts: ["image/jpeg", 0x0304, 0x0102] },
  { name: "GIF", bytes: GIF, facts: ["image/gif", 5, 7] },
  { name: "lossy WebP", bytes: LOSSY, facts: ["image/webp", 10, 11] },
  { name: "lossless WebP", bytes: LOSSLESS, facts: ["image/webp", 5, 8] },
  { name: "extended WebP", bytes: EXTENDED, facts: ["image/webp", 1_024, 257] },
])("$name", ({ bytes, facts: [mimeType, width, height] }) => {
  expect(readImage(bytes)).toEqual({ mimeType, width, height });
});

test.for([
  { name: "a signature alone", bytes: png(1, 1).subarray(0, 8) },
  { name: "a PNG of no width", bytes: png(0, 1) },
  { name: "a PNG whose header is cut", bytes: png(1, 1).subarray(0, 32) },
  { name: "a JPEG without a frame", bytes: hex("ffd8ffe000040000ffd900000000000000") },
  { name: "a JPEG of segments without length", bytes: hex(`ffd8${"ffe00000".repeat(50)}`) },
  { name: "a JPEG that ends in a segment", bytes: hex("ffd8ffe0ffff00000000000000") },
  {
    name: "a text that begins like a GIF",
    bytes: Buffer.from("GIF89a\n\n\n\nis a format of 1989"),
  },
  { name: "a GIF whose table is cut", bytes: GIF.subarray(0, 15) },
  {
    name: "WebP of an unknown form",
    bytes: Buffer.concat([LOSSY.subarray(0, 12), Buffer.alloc(20)]),
  },
])("$name is no picture, though it begins like one", ({ bytes }) => {
  expect([imageType(bytes) !== undefined, readImage(bytes)]).toEqual([true, undefined]);
});

test.for(["", "P", "hello", "<svg></svg>", "RIFF0000WAVE", "BM000000"])("%j is none", (text) => {
  expect(imageType(Buffer.from(text))).toBeUndefined();
});

test("every beginning of a picture is read without a fault", () => {
  for (const bytes of [png(1, 1), JPEG, GIF, LOSSY, LOSSLESS, EXTENDED]) {
    for (let length = 0; length < bytes.length; length += 1) {
      expect(() => readImage(bytes.subarray(0, length))).not.toThrow();
    }
  }
});

const WHOLE = {
  "image/png": Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  ),
  "image/jpeg": Buffer.concat([JPEG, hex("ffd9")]),
  "image/gif": Buffer.concat([GIF, hex("3b")]),
  "image/webp": Buffer.concat([hex("52494646 27000000"), LOSSLESS.subarray(8), Buffer.alloc(17)]),
} as const;

test.for(Object.entries(WHOLE))("%s without its last bytes is not whole", async ([, bytes]) => {
  const type = imageType(bytes);
  const isWhole = async (each: Buffer) => type !== undefined && isWholeImage(each, type);
  const wholes = [bytes, bytes.subarray(0, -1)].map(isWhole);
  expect(await Promise.all(wholes)).toEqual([true, false]);
});

test("the end of a preview is not that of its JPEG", async () => {
  const preview = hex("ffe1 0006 ffd8 ffd9");
  const photo = Buffer.concat([hex("ffd8"), preview, JPEG.subarray(2), hex("ffda 0002 1234")]);
  const wholes = [photo, Buffer.concat([photo, hex("ffd9 0000")])].map((each) =>
    isWholeImage(each, "image/jpeg"),
  );
  expect(await Promise.all(wholes)).toEqual([false, true]);
});

test("a GIF with padding behind its end is whole", async () => {
  const padded = Buffer.concat([WHOLE["image/gif"], Buffer.alloc(3)]);
  expect(await isWholeImage(padded, "image/gif")).toBe(true);
});

function chunk(type: string, data: Uint8Array): Buffer {
  const typed = Buffer.concat([Buffer.from(type), data]);
  const whole = Buffer.alloc(typed.length + 8);
  whole.writeUInt32BE(data.length);
  typed.copy(whole, 4);
  whole.writeUInt32BE(crc32(typed), typed.length + 4);
  return whole;
}

/** Of 9 x 5 pixels; `form` is depth, colour, compression, filter and interlacing. */
function pngOf(form: readonly number[], ...data: readonly Uint8Array[]): Buffer {
  const header = Buffer.from([0, 0, 0, 9, 0, 0, 0, 5, ...form]);
  const parts = data.map((each) => chunk("IDAT", each));
  const signature = png(9, 5).subarray(0, 8);
  return Buffer.concat([signature, chunk("IHDR", header), ...parts, chunk("IEND", Buffer.of())]);
}

const rows = (size: number) => deflateSync(Buffer.alloc(size));
const RGBA = [8, 6, 0, 0, 0];
const SIZE = 5 * (1 + 9 * 4);

test.for([
  { name: "colours", bytes: pngOf(RGBA, rows(SIZE)) },
  {
    name: "data in two chunks",
    bytes: pngOf(RGBA, rows(SIZE).subarray(0, 5), rows(SIZE).subarray(5)),
  },
  { name: "one bit for a pixel", bytes: pngOf([1, 0, 0, 0, 0], rows(5 * 3)) },
  { name: "seven passes", bytes: pngOf([8, 0, 0, 0, 1], rows(45 + 11)) },
])("a PNG with $name is whole", async ({ bytes }) => {
  expect(await isWholeImage(bytes, "image/png")).toBe(true);
});

test.for([
  { name: "data that does not inflate", bytes: pngOf(RGBA, Buffer.alloc(50, "x")) },
  { name: "a row too few", bytes: pngOf(RGBA, rows(SIZE - 1)) },
  { name: "no data", bytes: pngOf(RGBA) },
  { name: "a colour that is none", bytes: pngOf([8, 5, 0, 0, 0], rows(SIZE)) },
  { name: "a depth that its colour has not", bytes: pngOf([4, 6, 0, 0, 0], rows(SIZE)) },
  {
    name: "more chunks than an encoder writes",
    bytes: pngOf(RGBA, rows(SIZE), ...Array<Buffer>(20_000).fill(Buffer.of())),
  },
  { name: "an unknown interlacing", bytes: pngOf([8, 6, 0, 0, 2], rows(SIZE)) },
])("a PNG with $name is not, though its chunks are", async ({ bytes }) => {
  expect(await isWholeImage(bytes, "image/png")).toBe(false);
});
