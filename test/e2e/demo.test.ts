/** The demo runs to its closing line: an MCP client over stdio does the whole job. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const DEMO = resolve(import.meta.dirname, "../demo/main.ts");

test("the demo passes every step and leaves nothing", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [DEMO]);
  const lines = stdout.trimEnd().split("\n");
  expect(lines.filter((line) => line.startsWith("FAIL"))).toEqual([]);
  expect(lines.at(-1)).toMatch(/^demo: [1-9][0-9]* passed, 0 failed$/);
});
