/** A program that is over ends although nobody reads its standard error. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";

const SOURCE = resolve(import.meta.dirname, "../../../src/common/output-faults.ts");
/** More than any pipe holds. */
const BYTES = 2_000_000;
/** More than a pipe holds, and few enough to be read within the second on a machine under load. */
const READ_BYTES = 300_000;

const codeOf = (errorBytes: number) => `
  import { boundLastErrors } from ${JSON.stringify(SOURCE)};
  process.exitCode = 7;
  process.stderr.write("e".repeat(${errorBytes}));
  process.stdout.write("o".repeat(${BYTES}));
  boundLastErrors(process);`;

function start(errorBytes: number) {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", codeOf(errorBytes)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { child, exit: once(child, "exit") };
}

test("one that stopped reading does not hold up the end, and standard output is whole", async () => {
  const { child, exit } = start(BYTES);
  child.stderr.pause();
  expect(await text(child.stdout)).toHaveLength(BYTES);
  expect(await exit).toEqual([7, null]);
});

test("a reader gets all of it", async () => {
  const { child, exit } = start(READ_BYTES);
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect([output.length, errors.length, await exit]).toEqual([BYTES, READ_BYTES, [7, null]]);
});
