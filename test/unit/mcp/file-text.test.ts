/** Bytes of files as text: what their encoding and line ends are said to be. */

import { expect, test } from "vitest";
import { decodePart, guessEncoding, readLines } from "../../../src/mcp/files/file-text.ts";

function guess(bytes: Buffer, { offset = 0, isCut = false } = {}) {
  const part = { bytes, offset, isCut };
  const encoding = guessEncoding(part);
  return [encoding?.kind, encoding && decodePart(part, encoding)];
}

const ENGLISH = "a plain text of some length\n";

test.for([
  { name: "ASCII", bytes: Buffer.from("abc"), kind: "utf-8", text: "abc" },
  { name: "UTF-8", bytes: Buffer.from("é中"), kind: "utf-8", text: "é中" },
  { name: "nothing", bytes: Buffer.alloc(0), kind: "utf-8", text: "" },
  {
    name: "Latin",
    bytes: Buffer.from("caf\u00e9 cr\u00e8me", "latin1"),
    kind: "windows-1252",
    text: "café crème",
  },
  {
    name: "UTF-16 with its mark",
    bytes: Buffer.from("\ufeffé1", "utf16le"),
    kind: "utf-16le",
    text: "\ufeffé1",
  },
  {
    name: "UTF-16 without its mark",
    bytes: Buffer.from(ENGLISH, "utf16le"),
    kind: "utf-16le",
    text: ENGLISH,
  },
  {
    name: "UTF-16 of the other order",
    bytes: Buffer.from(ENGLISH, "utf16le").swap16(),
    kind: "utf-16be",
    text: ENGLISH,
  },
  {
    name: "UTF-8 with one wrong byte",
    bytes: Buffer.concat([Buffer.from("é è "), Buffer.of(0xff)]),
    kind: "broken utf-8",
    text: "é è \ufffd",
  },
  {
    name: "a log with some other bytes",
    bytes: Buffer.concat([Buffer.from(ENGLISH), Buffer.of(1, 0xff, 2)]),
    kind: "broken utf-8",
    text: `${ENGLISH}\u0001\ufffd\u0002`,
  },
  { name: "a few zeros", bytes: Buffer.of(0, 1, 2, 0xff), kind: undefined, text: undefined },
  {
    name: "a program",
    bytes: Buffer.from("7f454c460201010000000000000000000300", "hex"),
    kind: undefined,
    text: undefined,
  },
  {
    name: "numbers of two bytes",
    bytes: Buffer.from("01000200030004000500060007000800", "hex"),
    kind: undefined,
    text: undefined,
  },
  {
    name: "compressed bytes",
    bytes: Buffer.from("1f8b0801ff03e5c19f81a0b5c002d9", "hex"),
    kind: undefined,
    text: undefined,
  },
])("$name", ({ bytes, kind, text }) => {
  expect(guess(bytes)).toEqual([kind, text]);
});

test("a part that a cut left with halves of characters is UTF-8 all the same", () => {
  const bytes = Buffer.from("é中é");
  expect(guess(bytes.subarray(1, 4), { offset: 1, isCut: true })[0]).toBe("utf-8");
  expect(guess(bytes.subarray(0, 4))[0]).toBe("broken utf-8");
});

test("a part of UTF-16 from an odd place on is read from the next character", () => {
  const bytes = Buffer.from(ENGLISH, "utf16le").subarray(1);
  expect(guess(bytes, { offset: 1 })).toEqual(["utf-16le", ENGLISH.slice(1)]);
});

test.for([
  { raw: "a\nb", text: "a\nb", fact: undefined },
  { raw: "a\r\nb\r\n", text: "a\nb\n", fact: "line ends: CRLF" },
  { raw: "a\rb\r", text: "a\nb\n", fact: "line ends: CR" },
  { raw: "a\r\nb\n", text: "a\r\nb\n", fact: "line ends: mixed, 1 CRLF and 1 LF" },
  { raw: "a\rb\n", text: "a\rb\n", fact: undefined },
])("the line ends of $raw are named", ({ raw, text, fact }) => {
  expect(readLines(raw)).toEqual({ text, fact });
});

test("of a large file the beginning tells the encoding", () => {
  const text = Buffer.from("é".repeat(500_000));
  const part = { bytes: Buffer.concat([text, Buffer.alloc(10, 0xff)]), offset: 0, isCut: false };
  expect(guessEncoding(part)).toEqual({ kind: "utf-8" });
  const odd = { ...part, bytes: Buffer.concat([Buffer.from("a"), text]) };
  expect(guessEncoding(odd)).toEqual({ kind: "utf-8" });
});
