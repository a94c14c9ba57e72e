/** A program that is over ends although nobody reads its standard error. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";

const SOURCE = resolve(import.meta.dirname, "../../../src/common/output-faults.ts");
const BYTES = 2_000_000;

const CODE = `
  import { boundLastErrors } from ${JSON.stringify(SOURCE)};
  process.exitCode = 7;
  process.stderr.write("e".repeat(${BYTES}));
  process.stdout.write("o".repeat(${BYTES}));
  boundLastErrors(process);`;

function start() {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", CODE], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { child, exit: once(child, "exit") };
}

test("one that stopped reading does not hold up the end, and standard output is whole", async () => {
  const { child, exit } = start();
  child.stderr.pause();
  expect(await text(child.stdout)).toHaveLength(BYTES);
  expect(await exit).toEqual([7, null]);
});

test("a reader gets all of it", async () => {
  const { child, exit } = start();
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect([output.length, errors.length, await exit]).toEqual([BYTES, BYTES, [7, null]]);
});
