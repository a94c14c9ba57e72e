/** Terminal output as a reader sees it, and cuts that split neither line nor character. */

import { expect, test } from "vitest";
import { incompleteTail } from "../../../src/common/characters.ts";
import { escapeUnsafe } from "../../../src/common/untrusted-text.ts";
import {
  cleanOutput,
  cleanTerminal,
  cutAfter,
  cutBefore,
  formatBytes,
  formatDuration,
} from "../../../src/output/text.ts";

test.for([
  { name: "plain text", raw: "a\tb\nc\n", clean: "a\tb\nc\n" },
  { name: "colours", raw: "\u001b[1;31mred\u001b[0m", clean: "red" },
  { name: "a window title", raw: "\u001b]0;title\u0007x", clean: "x" },
  { name: "a link", raw: "\u001b]8;;http://x\u001b\\text\u001b]8;;\u001b\\", clean: "text" },
  { name: "an unfinished command", raw: "a\u001b]0;never", clean: "a" },
  { name: "an unfinished command before lines", raw: "a\u001b]0;x\nb\nc", clean: "a\nb\nc" },
  { name: "an unfinished string", raw: "a\u001bPq\nb\u001b[1mc", clean: "a\nbc" },
  { name: "a string of several lines", raw: "a\u001bPq\n#1\u001b\\b", clean: "ab" },
  { name: "a run of zeros", raw: `a${"\0".repeat(512)}b`, clean: "a[512 × \\u0000]b" },
  { name: "a run of tags", raw: "\u{e0041}".repeat(4), clean: "[4 × \\u{e0041}]" },
  { name: "three zeros", raw: "\0\0\0", clean: "\\u0000\\u0000\\u0000" },
  { name: "a lone escape", raw: "a\u001b", clean: "a\\u001b" },
  { name: "a progress bar", raw: "10%\r50%\r100%\ndone", clean: "100%\ndone" },
  { name: "a bar that ends with its return", raw: "10%\r50%\r\nnext", clean: "50%\nnext" },
  { name: "Windows line ends", raw: "a\r\nb\r\n", clean: "a\nb\n" },
  { name: "a bell and a backspace", raw: "a\u0007b\u0008", clean: "a\\u0007b\\u0008" },
  { name: "reversed text", raw: "abc\u202edef", clean: "abc\\u202edef" },
  { name: "invisible tags", raw: "x\u{e0041}y", clean: "x\\u{e0041}y" },
  { name: "an emoji of several parts", raw: "👩‍💻", clean: "👩\\u200d💻" },
])("$name is cleaned", ({ raw, clean }) => {
  expect(cleanTerminal(raw)).toBe(clean);
});

test("cleaning takes linear time on text that is all escapes", () => {
  const raw = "\u001b]".repeat(200_000);
  expect(cleanTerminal(raw)).toBe("");
});

test("line ends and tabs are not escaped", () => {
  expect(escapeUnsafe("a\n\tb\r")).toBe("a\n\tb\\u000d");
});

test("a cut falls behind a line that ends in the second half", () => {
  const bytes = Buffer.from("first\nsecond\nthird line that is long");
  expect(cutBefore(bytes, 20)).toBe("first\nsecond\n".length);
});

test("a cut without a line falls between characters", () => {
  const bytes = Buffer.from("aaaaaé");
  expect([cutBefore(bytes, 6), cutBefore(bytes, 7), cutBefore(bytes, 0)]).toEqual([5, 7, 0]);
});

test("a tail begins with a line, or at least with a character", () => {
  expect(cutAfter(Buffer.from("first\nsecond\nthird"), 3)).toBe("first\n".length);
  expect(cutAfter(Buffer.from("aé"), 2)).toBe(3);
});

test.for([
  { bytes: [0x61], tail: 0 },
  { bytes: [0x61, 0xc3], tail: 1 },
  { bytes: [0xc3, 0xa9], tail: 0 },
  { bytes: [0xf0, 0x9f, 0x98], tail: 3 },
  { bytes: [0xf0, 0x9f, 0x98, 0x80], tail: 0 },
  { bytes: [0x80, 0x80, 0x80, 0x80], tail: 0 },
])("$bytes ends with $tail bytes of an unfinished character", ({ bytes, tail }) => {
  expect(incompleteTail(Buffer.from(bytes))).toBe(tail);
});

test("sizes and durations are short", () => {
  expect([0, 999, 1_500, 182_341, 5_200_000].map((size) => formatBytes(size))).toEqual([
    "0 B",
    "999 B",
    "1.5 KB",
    "182 KB",
    "5.2 MB",
  ]);
  expect([7, 2_440, 120_000].map((ms) => formatDuration(ms))).toEqual(["7ms", "2.4s", "120s"]);
});

test("what a carriage return overwrote is counted", () => {
  expect(cleanOutput("10%\r50%\r\u001b[1m100%\r\nx\r\n\ra\r").overwritten).toEqual({
    count: 2,
    bytes: 6,
  });
});
