/** Suites of the public clients again, on a service that they know by a key and a domain alone. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";

const MAIN = resolve(import.meta.dirname, "../over-tls/main.ts");

/** What every client does, in both languages; the rest is played by `npm run clients:tls`. */
const SUITES = ["python", "sandbox"];

/** A run of runs: on a machine with other work it takes minutes. */
const LIMITS = { timeout: 400_000 };

test("a sandbox's whole life and the Python package", LIMITS, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...SUITES], {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"] },
  });
  expect(stripVTControlCharacters(stdout)).toMatch(/Test Files +2 passed/);
});
