/** What programs that search files print, as the reader of a search takes it, however it comes. */

import { expect, test, vi } from "vitest";
import {
  createGrepReader,
  createNameReader,
  createRipgrepReader,
  type FoundLine,
} from "../../../src/mcp/search/search-output.ts";

test("records that come byte by byte are those that come at once", () => {
  const text = Buffer.from("/a\u00003:one\n/b\u000012-two\n");
  const whole: unknown[] = [];
  const single: unknown[] = [];
  createGrepReader({ found: (line) => whole.push(line), fileEnd: () => undefined })(text);
  const read = createGrepReader({ found: (line) => single.push(line), fileEnd: () => undefined });
  for (const byte of text) read(Buffer.of(byte));
  expect(whole).toEqual([
    { path: "/a", line: 3, text: "one", isMatch: true },
    { path: "/b", line: 12, text: "two", isMatch: false },
  ]);
  expect(single).toEqual(whole);
});

test("a long record that comes byte by byte takes little more memory than its bytes", () => {
  const names: string[] = [];
  const read = createNameReader((name) => names.push(name));
  const piece = Buffer.from("a");
  const before = process.memoryUsage().heapUsed;
  for (let count = 0; count < 1_000_000; count += 1) read(piece);
  // An object for each piece would take more than a hundred megabytes.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(64_000_000);
  read(Buffer.of(0));
  expect(names.map(({ length }) => length)).toEqual([1_000_000]);
});

/** A line as `rg --json` prints it, with its match where it is told. */
function record(path: object, text: string, start: number): string {
  const data = {
    path,
    lines: { text },
    line_number: 1,
    absolute_offset: 0,
    submatches: [{ match: { text: "alpha" }, start, end: start + 5 }],
  };
  return `${JSON.stringify({ type: "match", data })}\n`;
}

const END = { type: "end", data: { binary_offset: null } };

/** What a reader finds in an output that comes in chunks. */
function readAll(output: string): readonly (FoundLine | "end")[] {
  const found: (FoundLine | "end")[] = [];
  const take = createRipgrepReader({
    summary: () => undefined,
    found: (line) => found.push(line),
    fileEnd: () => found.push("end"),
  });
  const bytes = Buffer.from(output);
  for (let start = 0; start < bytes.length; start += 65_536) {
    take(bytes.subarray(start, start + 65_536));
  }
  return found;
}

const LONG = `${"x".repeat(2_000_000)}alpha\n`;

test.for([
  { name: "text", path: { text: '/a "b" \\ c' }, told: '/a "b" \\ c' },
  { name: "bytes", path: { bytes: Buffer.from("/bytes").toString("base64") }, told: "/bytes" },
])("a match on a line that is too long counts, with a path of $name", ({ path, told }) => {
  const output = `${record(path, LONG, 2_000_000)}${JSON.stringify(END)}\n`;
  expect(readAll(output)).toEqual([
    { path: told, line: undefined, text: "", isMatch: true },
    "end",
  ]);
});

test("a line that is too long and only near a match is left out, and the next one is whole", () => {
  const near = record({ text: "/a" }, LONG, 0).replace('"match"', '"context"');
  expect(readAll(`${near}${record({ text: "/a" }, "alpha\n", 0)}`)).toEqual([
    { path: "/a", line: 1, text: "alpha", isMatch: true },
  ]);
});

test("a name that is no UTF-8 is told as every other tool tells it", () => {
  const raw = Buffer.from("/a/caf\u00e9\\x", "latin1");
  const told = "/a/caf\\xe9\\x5cx";
  const json = record({ bytes: raw.toString("base64") }, "alpha\n", 0);
  expect(readAll(json)).toEqual([{ path: told, line: 1, text: "alpha", isMatch: true }]);
  const names: string[] = [];
  createNameReader((name) => names.push(name))(Buffer.concat([raw, Buffer.of(0)]));
  createGrepReader({ found: ({ path }) => names.push(path), fileEnd: () => undefined })(
    Buffer.concat([raw, Buffer.from("\u00001:alpha\n")]),
  );
  expect(names).toEqual([told, told]);
});

test.for([
  { name: "nothing", line: "\n" },
  { name: "no JSON", line: "{\n" },
  { name: "the half of a record", line: '{"type":"end"\n' },
])("of lines of $name, which no ripgrep prints, one at most is read as JSON", ({ line }) => {
  // A text that is no JSON costs as much time as some thousand bytes of one that is.
  using parse = vi.spyOn(JSON, "parse");
  expect(readAll(line.repeat(10_000))).toEqual([]);
  expect(parse.mock.calls.length).toBeLessThan(2);
});
