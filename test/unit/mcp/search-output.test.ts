/** What programs that search files print, however it comes. */

import { expect, test } from "vitest";
import { createGrepReader, createNameReader } from "../../../src/mcp/search-output.ts";

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
