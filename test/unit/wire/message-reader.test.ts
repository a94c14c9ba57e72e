/** Messages of any number of pieces are handed on whole, as soon as they are. */

import { expect, test } from "vitest";
import { createMessageReader } from "../../../src/wire/message-reader.ts";
import { envelope } from "../../support/raw-call.ts";

const OPTIONS = { maxBytes: 1_000, createGauge: () => () => undefined };

/** What is handed on after each piece, and in the end. */
function read(isUnary: boolean, pieces: readonly Uint8Array[]): (string | undefined)[] {
  const reader = createMessageReader({ ...OPTIONS, isUnary });
  const given = pieces.map((piece) => reader.add(piece));
  return [...given, reader.rest()].map((bytes) => bytes && Buffer.from(bytes).toString("latin1"));
}

const FIRST = envelope("first").toString("latin1");
const SECOND = envelope("second").toString("latin1");

test("envelopes leave when they are complete, however they were cut", () => {
  const both = Buffer.from(FIRST + SECOND, "latin1");
  const bytes = Array.from(both, (byte) => Buffer.from([byte]));
  const expected: (string | undefined)[] = Array(both.length + 1).fill(undefined);
  expected[FIRST.length - 1] = FIRST;
  expected[both.length - 1] = SECOND;
  expect(read(false, bytes)).toEqual(expected);
  expect(read(false, [both])).toEqual([FIRST + SECOND, undefined]);
  const cut = [both.subarray(0, 12), both.subarray(12)];
  expect(read(false, cut)).toEqual([both.toString("latin1", 0, 12), SECOND.slice(2), undefined]);
});

test("an envelope of nothing is a message too, one that is cut off is what is left", () => {
  expect(read(false, [envelope(""), Buffer.from([0, 0])])).toEqual([
    envelope("").toString("latin1"),
    undefined,
    "\0\0",
  ]);
});

test("the whole of a body is one message", () => {
  expect(read(true, [Buffer.from("a"), Buffer.from("b")])).toEqual([undefined, undefined, "ab"]);
  expect(read(true, [])).toEqual([undefined]);
});

test.for([
  { isUnary: true, pieces: [Buffer.alloc(600), Buffer.alloc(401)] },
  { isUnary: false, pieces: [envelope("", { announced: 1_001 })] },
])("more than the limit is refused as soon as it is known (unary: $isUnary)", (given) => {
  expect(() => read(given.isUnary, given.pieces)).toThrow("message exceeds 1000 bytes");
});
