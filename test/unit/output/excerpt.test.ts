/** What a reply shows of an output, and where the rest begins. */

import { expect, test } from "vitest";
import { excerptOutput, recentOf as shownOf } from "../../../src/output/excerpt.ts";
import { HEAD_BYTES, TAIL_BYTES } from "../../../src/output/output-buffer.ts";
import { pageOutput } from "../../../src/output/page-output.ts";
import { ProcessOutput } from "../../../src/output/process-output.ts";
import { toNote, type QuotedPart } from "../../../src/output/quote.ts";

function bufferOf(...chunks: readonly (readonly ["stdout" | "stderr", string])[]): ProcessOutput {
  const output = new ProcessOutput(undefined);
  for (const [stream, text] of chunks) void output.append(stream, Buffer.from(text));
  return output;
}

function recentOf(output: ProcessOutput) {
  return { pieces: output.recent(), written: output.written };
}

function textOf(parts: readonly QuotedPart[] = []): string {
  return parts.filter((part) => typeof part === "string").join("");
}

const BOTH = { streams: ["stdout", "stderr"], isRunning: false } as const;

test("an output within the budget is shown whole, each stream by itself", async () => {
  const buffer = bufferOf(["stdout", "a\n"], ["stderr", "oops\n"], ["stdout", "b\n"]);
  expect(excerptOutput(recentOf(buffer), 1_000)).toEqual([
    { stream: "stdout", head: ["a\nb\n"] },
    { stream: "stderr", head: ["oops\n"] },
  ]);
});

test("a long output keeps a quarter of the budget from its beginning and the rest from its end", async () => {
  const lines = Array.from({ length: 1_000 }, (_, index) => `line ${index}\n`);
  const [excerpt] = excerptOutput(recentOf(bufferOf(["stdout", lines.join("")])), 1_000);
  const cut = excerpt?.cut;
  const [head, tail] = [textOf(excerpt?.head), textOf(cut?.tail)];
  expect(head.split("\n").slice(0, 2)).toEqual(["line 0", "line 1"]);
  expect(head.length).toBeLessThanOrEqual(250);
  expect(tail.endsWith("line 999\n")).toBe(true);
  expect(tail.length).toBeLessThanOrEqual(750);
  expect(cut?.cursor).toBe(head.length);
  const shown = head.length + tail.length;
  expect(cut?.omittedBytes).toBe(lines.join("").length - shown);
});

test("a small stderr is not pushed out by a large stdout", async () => {
  const buffer = bufferOf(["stdout", "x".repeat(50_000)], ["stderr", "the reason\n"]);
  const excerpts = excerptOutput(recentOf(buffer), 1_000);
  expect(excerpts.map(({ stream, cut }) => [stream, cut !== undefined])).toEqual([
    ["stdout", true],
    ["stderr", false],
  ]);
});

test("the cursor of a cut counts both streams", async () => {
  const buffer = bufferOf(["stderr", "e".repeat(100)], ["stdout", "o".repeat(10_000)]);
  const stdout = excerptOutput(recentOf(buffer), 1_000).find(({ stream }) => stream === "stdout");
  expect(stdout?.cut?.cursor).toBe(100 + textOf(stdout?.head).length);
});

test("pages follow each other without a byte twice", async () => {
  const text = Array.from({ length: 500 }, (_, index) => `line ${index}\n`).join("");
  const buffer = bufferOf(["stdout", text]);
  let cursor = 0;
  let read = "";
  while (cursor < buffer.totalBytes) {
    const page = await pageOutput(buffer, { ...BOTH, cursor, maxBytes: 1_000 });
    read += page.texts.map((part) => textOf(part.parts)).join("");
    expect(page.nextCursor).toBeGreaterThan(cursor);
    cursor = page.nextCursor;
  }
  expect(read).toBe(text);
});

test("a page of one stream passes over the other", async () => {
  const buffer = bufferOf(["stdout", "a"], ["stderr", "b"], ["stdout", "c"]);
  expect(
    await pageOutput(buffer, { cursor: 0, maxBytes: 1_000, streams: ["stdout"], isRunning: false }),
  ).toEqual({ texts: [{ stream: "stdout", parts: ["ac"] }], nextCursor: 3 });
});

test("a character that is not complete waits while the process runs", async () => {
  const buffer = new ProcessOutput(undefined);
  void buffer.append("stdout", Buffer.from([0x61, 0xc3]));
  const wish = { cursor: 0, maxBytes: 1_000, streams: ["stdout"], isRunning: true } as const;
  expect(await pageOutput(buffer, wish)).toEqual({
    texts: [{ stream: "stdout", parts: ["a"] }],
    nextCursor: 1,
  });
  void buffer.append("stdout", Buffer.from([0xa9]));
  expect(await pageOutput(buffer, { ...wish, cursor: 1 })).toEqual({
    texts: [{ stream: "stdout", parts: ["é"] }],
    nextCursor: 3,
  });
});

test("a page stops before the gap and the next one says where it goes on", async () => {
  const buffer = new ProcessOutput(undefined);
  for (let index = 0; index < 20; index += 1)
    void buffer.append("stdout", Buffer.alloc(100_000, "x"));
  const before = await pageOutput(buffer, { ...BOTH, cursor: HEAD_BYTES - 10, maxBytes: 1_000 });
  expect(before.nextCursor).toBe(HEAD_BYTES);
  const after = await pageOutput(buffer, { ...BOTH, cursor: before.nextCursor, maxBytes: 1_000 });
  const oldest = 20 * 100_000 - TAIL_BYTES;
  expect([after.resumedAt, after.nextCursor]).toEqual([oldest, oldest + 1_000]);
});

test("a cursor beyond the end reads nothing", async () => {
  const buffer = bufferOf(["stdout", "abc"]);
  expect(await pageOutput(buffer, { ...BOTH, cursor: 99, maxBytes: 1_000 })).toEqual({
    texts: [],
    nextCursor: 3,
  });
});

test.for(["stdout", "stderr"] as const)(
  "the beginning of a character at the end of %s is left to the next page",
  async (stream) => {
    const bytes = Buffer.from("aé");
    const output = new ProcessOutput(undefined);
    await output.append(stream, bytes.subarray(0, 2));
    const { end, ...recent } = shownOf(output, true);
    expect(excerptOutput(recent, 1_000)).toEqual([{ stream, head: ["a"] }]);
    await output.append(stream, bytes.subarray(2));
    expect((await pageOutput(output, { ...BOTH, cursor: end, maxBytes: 1_000 })).texts).toEqual([
      { stream, parts: ["é"] },
    ]);
  },
);

test("of an output that has ended every byte is shown", async () => {
  const output = new ProcessOutput(undefined);
  await output.append("stdout", Buffer.from("aé").subarray(0, 2));
  const { end, ...recent } = shownOf(output, false);
  expect([end, excerptOutput(recent, 1_000)]).toEqual([
    2,
    [{ stream: "stdout", head: ["a\uFFFD"] }],
  ]);
});

/** Deterministic, and without runs. */
const BINARY = Buffer.from(Array.from({ length: 60_000 }, (_, index) => (index * index * 31) >> 7));
const UNEVEN = Buffer.concat([
  Buffer.from("a".repeat(20_000)),
  Buffer.from("\u0001\u0002".repeat(20_000)),
]);

const MOVES = Buffer.from(
  "\u001b[60C\u0001\u0002\u0001\u0002\u0001\u0002\u0001\u0002\n".repeat(1_500),
);

function shownBytes(parts: readonly QuotedPart[]): number {
  return Buffer.byteLength(textOf(parts), "utf8");
}

test.for([
  { name: "binary data", bytes: BINARY },
  { name: "text and control characters", bytes: UNEVEN },
  { name: "control characters and text", bytes: UNEVEN.toReversed() },
  { name: "moves and control characters", bytes: MOVES },
])("of $name a reply shows no more than its budget, and close to it", async ({ bytes }) => {
  const output = new ProcessOutput(undefined);
  await output.append("stdout", Buffer.from(bytes));
  const [excerpt] = excerptOutput(recentOf(output), 10_000);
  const shown = shownBytes([...(excerpt?.head ?? []), ...(excerpt?.cut?.tail ?? [])]);
  expect([shown <= 10_000, shown > 5_000]).toEqual([true, true]);
  const pages: number[] = [];
  let cursor = 0;
  while (cursor < output.totalBytes) {
    const page = await pageOutput(output, { ...BOTH, cursor, maxBytes: 10_000 });
    pages.push(shownBytes(page.texts.flatMap(({ parts }) => parts)));
    cursor = page.nextCursor;
  }
  expect(Math.max(...pages)).toBeLessThanOrEqual(10_000);
  expect(pages.length).toBeLessThan(60);
});

const MARK = "[… a mark of the server, which no program wrote …]";
const AROUND = Array.from({ length: 80 }, (_, index) => `line ${index}\n`).join("");

/** A mark between what a program wrote before and after it. */
function markedOutput(): ProcessOutput {
  const output = bufferOf(["stdout", AROUND]);
  void output.append("note", toNote(MARK));
  void output.append("stdout", Buffer.from(AROUND));
  return output;
}

function notesOf(parts: readonly QuotedPart[]): readonly string[] {
  return parts.flatMap((part) => (typeof part === "string" ? [] : [part.note]));
}

test("a mark of the server is on one page, wherever pages end", async () => {
  const output = markedOutput();
  for (let maxBytes = 200; maxBytes < 800; maxBytes += 1) {
    const parts: QuotedPart[] = [];
    for (let cursor = 0; cursor < output.totalBytes;) {
      const page = await pageOutput(output, { ...BOTH, cursor, maxBytes });
      parts.push(...page.texts.flatMap((text) => text.parts));
      expect(page.nextCursor).toBeGreaterThan(cursor);
      cursor = page.nextCursor;
    }
    expect([textOf(parts), notesOf(parts)]).toEqual([AROUND + AROUND, [MARK]]);
  }
});

test("no part of a mark passes for output where the middle is left out or a cursor is in it", async () => {
  const output = markedOutput();
  const line = /^(?:line \d+\n)*(?:l?i?n?e? ?\d*)$/;
  for (let maxBytes = 200; maxBytes < 1_400; maxBytes += 1) {
    const [excerpt] = excerptOutput(recentOf(output), maxBytes);
    expect(textOf(excerpt?.head)).toMatch(line);
    expect(textOf(excerpt?.cut?.tail).replace(/^[line\d ]*\n/, "")).toMatch(line);
  }
  for (let cursor = AROUND.length + 1; cursor < AROUND.length + MARK.length; cursor += 1) {
    const page = await pageOutput(output, { ...BOTH, cursor, maxBytes: 1_000 });
    expect(page.texts.map(({ parts }) => textOf(parts))).toEqual([AROUND]);
  }
});
