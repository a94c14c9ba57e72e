/** Copies of the program's files: each goes with the process that it is for. */

import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { removeDeadCopies } from "../../../src/commands/program-files.ts";
import { readStartTicks } from "../../../src/engine/oci/container-record.ts";

const HASH = "0123456789abcdef";

function refuse(): never {
  throw new Error("a copy could not be removed");
}

test("the copy of an earlier process with the number of a living one is removed", async () => {
  await using stack = new AsyncDisposableStack();
  const home = await mkdtemp(join(tmpdir(), "smcp-copies-"));
  stack.defer(() => rm(home, { recursive: true, force: true }));
  const own = `${process.pid}x${readStartTicks(process.pid)}x${HASH}`;
  const dead = `${process.pid}x1x${HASH}`;
  const copies = join(home, "programs");
  for (const name of [own, dead]) await mkdir(join(copies, name), { recursive: true });
  expect(await removeDeadCopies(home, refuse)).toEqual([dead]);
  expect(await readdir(copies)).toEqual([own]);
});
