/** Copies of the program's files: each goes with the process that it is for. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import {
  holdProgramFiles,
  removeDeadCopies,
} from "../../../src/commands/program/program-copies.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { isRootless } from "../../../src/common/privilege.ts";
import { readStartTicks } from "../../../src/engine/host/process-stat.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const HOLDER = resolve(import.meta.dirname, "../../support/engine/copy-holder.ts");
const HASH = "0123456789abcdef";

function refuse(): never {
  throw new Error("a copy could not be removed");
}

test("the copy of an older version is removed when its process has ended", async () => {
  await using stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await makeTempFolder());
  const own = `${process.pid}x${readStartTicks(process.pid)}x${HASH}`;
  const dead = `${process.pid}x1x${HASH}`;
  const copies = join(home, "programs");
  for (const name of [own, dead]) await mkdir(join(copies, name), { recursive: true });
  expect(await removeDeadCopies(home, refuse)).toEqual([dead]);
  expect(await readdir(copies)).toEqual([own]);
});

test("what cannot be locked is told, and the others go", async () => {
  await using stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await makeTempFolder());
  const [odd, dead] = ["0".repeat(32), "1".repeat(32)];
  const copies = join(home, "programs");
  await mkdir(join(copies, `${odd}.lock`), { recursive: true });
  await mkdir(join(copies, dead));
  const told: string[] = [];
  expect(await removeDeadCopies(home, ({ name }) => told.push(name))).toEqual([dead]);
  expect(told).toEqual([odd]);
});

test("a copy goes with its process, and nothing of it is left", async () => {
  await using stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await makeTempFolder());
  const copies = join(home, "programs");
  const files = await holdProgramFiles(home, createSilentLog());
  expect(await readdir(copies)).toHaveLength(2);
  expect(await removeDeadCopies(home, refuse)).toEqual([]);
  await files[Symbol.asyncDispose]();
  expect(await readdir(copies)).toEqual([]);
});

const OTHER_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child"];

test.for([
  { where: "on this machine", through: [] },
  // As in another container with the same home: its number is that of another process here.
  ...(isRootless() ? [] : [{ where: "in another process namespace", through: OTHER_NAMESPACE }]),
])("the copy of a process $where stays until it is killed", async ({ through }) => {
  await using stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await makeTempFolder());
  const [program, ...words] = [...through, process.execPath, HOLDER, home];
  const child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
  const exit = once(child, "exit");
  stack.defer(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { value: name } = await lines.next();
  expect(await removeDeadCopies(home, refuse)).toEqual([]);
  child.kill("SIGKILL");
  await exit;
  await expect.poll(() => removeDeadCopies(home, refuse)).toEqual([name]);
  expect(await readdir(join(home, "programs"))).toEqual([]);
});
