/** The bounded output of a process: first and newest part kept, positions never reused. */

import { expect, test } from "vitest";
import {
  ByteRing,
  HEAD_BYTES,
  OutputBuffer,
  TAIL_BYTES,
} from "../../../src/output/output-buffer.ts";

test("a ring keeps the newest bytes and counts from the beginning", () => {
  const ring = new ByteRing(8);
  for (const text of ["abc", "defgh", "ijk"]) ring.append(Buffer.from(text));
  expect([ring.start, ring.end, ring.slice(3, 11).toString()]).toEqual([3, 11, "defghijk"]);
});

test("a ring takes a chunk that is larger than itself", () => {
  const ring = new ByteRing(4);
  ring.append(Buffer.from("ab"));
  ring.append(Buffer.from("0123456789"));
  expect([ring.start, ring.end, ring.slice(8, 12).toString()]).toEqual([8, 12, "6789"]);
});

test("a ring grows without losing bytes", () => {
  const ring = new ByteRing(100_000);
  const text = "0123456789".repeat(9_999);
  for (let index = 0; index < text.length; index += 7) {
    ring.append(Buffer.from(text.slice(index, index + 7)));
  }
  expect(ring.slice(0, ring.end).toString()).toBe(text);
});

test("both streams stay in the order of arrival", () => {
  const buffer = new OutputBuffer();
  buffer.append("stdout", Buffer.from("a"));
  buffer.append("stdout", Buffer.from("b"));
  buffer.append("stderr", Buffer.from("c"));
  buffer.append("stdout", Buffer.from("d"));
  expect(
    buffer.pieces(0).map(({ stream, start, bytes }) => [stream, start, bytes.toString()]),
  ).toEqual([
    ["stdout", 0, "ab"],
    ["stderr", 2, "c"],
    ["stdout", 3, "d"],
  ]);
  expect(buffer.pieces(1).map(({ start, bytes }) => [start, bytes.toString()])).toEqual([
    [1, "b"],
    [2, "c"],
    [3, "d"],
  ]);
});

test("what does not fit is lost from the middle", () => {
  const buffer = new OutputBuffer();
  const chunk = Buffer.alloc(100_000, "x");
  const count = 30;
  for (let index = 0; index < count; index += 1) buffer.append("stdout", chunk);
  const total = count * chunk.length;
  expect({
    total: buffer.totalBytes,
    gap: buffer.gap,
    kept: buffer.keptBytes,
    pieces: buffer.pieces(0).map(({ start, bytes }) => [start, bytes.length]),
  }).toEqual({
    total,
    gap: { start: HEAD_BYTES, end: total - TAIL_BYTES },
    kept: HEAD_BYTES + TAIL_BYTES,
    pieces: [
      [0, HEAD_BYTES],
      [total - TAIL_BYTES, TAIL_BYTES],
    ],
  });
});

test("streams that alternate with every byte are bounded, and each byte keeps its stream", () => {
  const buffer = new OutputBuffer();
  for (let index = 0; index < 200_000; index += 1) {
    buffer.append(index % 2 === 0 ? "stdout" : "stderr", Buffer.from(index % 2 === 0 ? "o" : "e"));
  }
  const pieces = buffer.pieces(0);
  expect(pieces.length).toBeLessThanOrEqual(2 * 16_384 + 2);
  expect(
    pieces.every(
      ({ stream, bytes }) =>
        /^(o+|e+)$/.test(bytes.toString()) &&
        bytes.toString().startsWith(stream === "stdout" ? "o" : "e"),
    ),
  ).toBe(true);
  expect([buffer.totalBytes, buffer.written]).toEqual([
    200_000,
    { stdout: 100_000, stderr: 100_000, note: 0 },
  ]);
});
