import { execFile } from "node:child_process";
import { closeSync, constants, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openNamedPipe } from "../../../src/common/named-pipe.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MAX_WAITING_BYTES = 100_000;
const LINE = `${"x".repeat(999)}\n`;

async function openBothEnds() {
  const stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const path = join(folder.path, "pipe");
  await promisify(execFile)("mkfifo", [path]);
  const openReader = () => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const reader = openReader();
  const lines = stack.use(openNamedPipe(path, MAX_WAITING_BYTES));
  return { reader, openReader, lines, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** What is in the pipe now. */
function readAll(reader: number): number {
  const bytes = Buffer.alloc(1_000_000);
  let total = 0;
  try {
    for (;;) {
      const count = readSync(reader, bytes);
      if (count === 0) return total;
      total += count;
    }
  } catch {
    // It is empty.
    return total;
  }
}

test("lines to a pipe that is full wait for its reader, as many as are allowed", async () => {
  await using ends = await openBothEnds();
  for (let index = 0; index < 1000; index += 1) ends.lines.write(LINE);
  let total = readAll(ends.reader);
  // The pipe itself holds 64 KiB.
  expect(total).toBeLessThanOrEqual(65_536);
  const whole = Math.ceil((total + MAX_WAITING_BYTES) / LINE.length) * LINE.length;
  await expect.poll(() => (total += readAll(ends.reader)), { timeout: 10_000 }).toBe(whole);
  closeSync(ends.reader);
});

test("lines without a reader are lost, and the next reader gets the next line", async () => {
  await using ends = await openBothEnds();
  closeSync(ends.reader);
  ends.lines.write(LINE);
  const reader = ends.openReader();
  ends.lines.write("next\n");
  expect(readAll(reader)).toBe("next\n".length);
  closeSync(reader);
});
