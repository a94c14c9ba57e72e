/** The process of a bash kernel: whatever descriptors it gets, and whatever its cells define. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";

const PROGRAM = resolve(import.meta.dirname, "../../../src/interpreter/bash-process.sh");
const DONE = '{"type":"done","number":1}\n';

/** Runs cells in a process with these descriptors, and returns its answers and its output. */
async function runCells(
  cells: readonly string[],
  [asked, answered]: readonly [number, number] = [3, 4],
) {
  const stdio: ("ignore" | "pipe")[] = Array.from(
    { length: Math.max(asked, answered) + 1 },
    () => "ignore",
  );
  for (const descriptor of [1, asked, answered]) stdio[descriptor] = "pipe";
  const args = ["--noprofile", "--norc", PROGRAM, String(asked), String(answered)];
  const child = spawn("bash", args, { stdio, timeout: 10_000, killSignal: "SIGKILL" });
  const [questions, answers] = [child.stdio[asked], child.stdio[answered]];
  if (!(questions instanceof Writable) || !(answers instanceof Readable)) throw new TypeError();
  // A process that has ended reads no more.
  questions.on("error", () => undefined);
  const output = Promise.all([text(answers), text(child.stdout ?? Readable.from([]))]);
  // Each with a variable of its call.
  questions.end(
    cells.map((cell) => `\0\\builtin export A=1\n\0A\0${cell.length}\x001\0${cell}`).join(""),
  );
  await once(child, "close");
  expect(child.signalCode, "it does not end by itself").toBeNull();
  return output;
}

test.for<readonly [number, number]>([
  [200, 201],
  [201, 200],
  [200, 9],
  [9, 200],
  [201, 9],
  [9, 201],
])("descriptors %i and %i are as good as others", async (descriptors) => {
  expect(await runCells(["echo on"], descriptors)).toEqual([`ready\n${DONE}`, "on\n"]);
});

test.for(["eval", "export", "printf", "read", "set", "source", "trap", "unset"])(
  "a function %s of a cell is for cells",
  async (name) => {
    const [answers, output] = await runCells([`${name}() { echo mine; }`, `${name} 1; echo on`]);
    expect(answers).toBe(`ready\n${DONE}${DONE}`);
    expect(output).toBe("mine\non\n");
  },
);

test.for([
  "set -k",
  "set -v 2>&-",
  "shopt -s expand_aliases; alias builtin='echo mine;' set='echo mine;' trap='echo mine;'",
  "break",
  "continue",
  "TMOUT=1",
])("after %s the next cell runs as it stands", async (cell) => {
  const [answers, output] = await runCells([cell, "echo on $A"]);
  expect(answers).toBe(`ready\n${DONE}${DONE}`);
  expect(output).toBe("on 1\n");
});

test.for([
  "set -n",
  "set -n; false",
  "! set -n",
  "shopt -s extdebug; trap false DEBUG",
  "builtin() { :; }",
  "enable -n printf",
  "continue 2",
  "break 2",
])("%s ends the process, which would answer no more", async (cell) => {
  const [answers, output] = await runCells([cell, "echo on"]);
  expect([answers, output]).toEqual(["ready\n", ""]);
});

test("traps of a cell are run for the commands of cells alone", async () => {
  const set = "trap 'echo ERR' ERR; trap 'echo DEBUG' DEBUG";
  const [answers, output] = await runCells([set, "echo on; false", "trap - DEBUG ERR", "false"]);
  const failed = '{"type":"error","name":"ExitStatus","value":"1","traceback":""}\n';
  expect(answers).toBe(`ready\n${DONE}${failed}${DONE}${DONE}${failed}${DONE}`);
  // Of the two commands of the second cell, of the trap that the second one's failure runs, of `trap -`.
  expect(output).toBe("DEBUG\non\nDEBUG\nDEBUG\nERR\nDEBUG\n");
});

test("a shell that shows what it reads shows what cells say", async () => {
  const [, output] = await runCells(["exec 2>&1; set -v", "echo on\necho $LINENO"]);
  expect(output).toBe("echo on\non\necho $LINENO\n2\n");
});
