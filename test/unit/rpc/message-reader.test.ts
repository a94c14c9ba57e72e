/** Messages of any number of pieces are handed on whole, as soon as they are. */

import { expect, test } from "vitest";
import { encodeEnvelope } from "../../../src/rpc/envelope.ts";
import { createMessageReader } from "../../../src/rpc/message-reader.ts";
import { envelope } from "../../support/raw-call.ts";

const JSON_STREAM = { isStream: true, isBinary: false };
const BINARY_STREAM = { isStream: true, isBinary: true };
const JSON_UNARY = { isStream: false, isBinary: false };
const LIMITS = { maxBytes: 1_000, maxValues: 10 };

/** What is handed on after each piece, and in the end. */
function read(type: typeof JSON_STREAM, pieces: readonly Uint8Array[]): string[][] {
  const reader = createMessageReader(type, LIMITS);
  const given = pieces.map((piece) => [...reader.read(piece)]);
  const rest = reader.rest();
  return [...given, rest === undefined ? [] : [rest]].map((messages) =>
    messages.map((bytes) => Buffer.from(bytes).toString("latin1")),
  );
}

const FIRST = envelope("first").toString("latin1");
const SECOND = envelope("second").toString("latin1");

test("an envelope has its flags, the length of its bytes and those", () => {
  expect(encodeEnvelope("é", 2)).toEqual(Buffer.from([2, 0, 0, 0, 2, 0xc3, 0xa9]));
  const long = encodeEnvelope(Buffer.alloc(0x01_02_03));
  expect([long.length, long.subarray(0, 5)]).toEqual([0x01_02_08, Buffer.from([0, 0, 1, 2, 3])]);
});

test("envelopes leave when they are complete, however they were cut", () => {
  const both = Buffer.from(FIRST + SECOND, "latin1");
  const bytes = Array.from(both, (byte) => Buffer.from([byte]));
  const expected: string[][] = Array.from({ length: both.length + 1 }, () => []);
  expected[FIRST.length - 1] = [FIRST];
  expected[both.length - 1] = [SECOND];
  expect(read(JSON_STREAM, bytes)).toEqual(expected);
  expect(read(JSON_STREAM, [both])).toEqual([[FIRST, SECOND], []]);
  const cut = [both.subarray(0, 12), both.subarray(12)];
  expect(read(JSON_STREAM, cut)).toEqual([[FIRST], [SECOND], []]);
});

test("an envelope of nothing is a message too, one that is cut off is what is left", () => {
  const pieces = [envelope(""), Buffer.from([0, 0])];
  expect(read(JSON_STREAM, pieces)).toEqual([[envelope("").toString("latin1")], [], ["\0\0"]]);
});

test("the whole of a body is one message", () => {
  expect(read(JSON_UNARY, [Buffer.from("a"), Buffer.from("b")])).toEqual([[], [], ["ab"]]);
  expect(read(JSON_UNARY, [])).toEqual([[]]);
});

const RICH = "[1,1,1,1,1,1,1,1,1,1,1]";

test.for([
  { type: JSON_UNARY, pieces: [Buffer.alloc(600), Buffer.alloc(401)], fault: "1000 bytes" },
  { type: JSON_STREAM, pieces: [envelope("", { announced: 1_001 })], fault: "1000 bytes" },
  { type: BINARY_STREAM, pieces: [envelope("", { announced: 1_001 })], fault: "1000 bytes" },
  { type: JSON_UNARY, pieces: [Buffer.from(RICH)], fault: "10 values" },
  { type: JSON_STREAM, pieces: [envelope(RICH, { announced: 900 })], fault: "10 values" },
  { type: BINARY_STREAM, pieces: [envelope(RICH, { flags: 2 })], fault: "10 values" },
])("more than the limit is refused as soon as it is known: $type, $fault", (given) => {
  expect(() => read(given.type, given.pieces)).toThrow(given.fault);
});

test("a binary message stands for its own size, whatever its bytes look like", () => {
  expect(read(BINARY_STREAM, [envelope(RICH)])).toEqual([[envelope(RICH).toString("latin1")], []]);
});
