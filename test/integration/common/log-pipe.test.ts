/** A log on a pipe that its reader does not empty, as some hosts of a stdio server leave it. */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { endChild } from "../../support/end-child.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LOG = resolve(import.meta.dirname, "../../../src/common/log.ts");

/** Logs far more than a pipe holds, says so, and logs once more for each line that it reads. */
const SCRIPT = `
import { createInterface } from "node:readline";
import { createLog } from ${JSON.stringify(LOG)};
const log = createLog({ level: "info", file: process.argv[1] });
for (let index = 0; index < 20_000; index += 1) log.info({ index, text: "x".repeat(200) }, "flood");
console.log("flooded");
createInterface({ input: process.stdin }).on("line", (line) => {
  log.info({ line }, "heard");
});
`;

/** Runs a program whose standard error is a terminal, which is read as fast as its own is. */
const TERMINAL = `
import os, pty, subprocess, sys
master, terminal = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stderr=terminal)
os.close(terminal)
try:
    while True:
        os.write(2, os.read(master, 65536))
except OSError:
    sys.exit(child.wait())
`;

test.for([
  { kind: "pipe" },
  { kind: "socket" },
  { kind: "terminal" },
  { kind: "log file" },
] as const)(
  "a $kind that is not read stops nothing, and once it is read later lines arrive",
  async ({ kind }) => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "pipe");
    await promisify(execFile)("mkfifo", [path]);
    // Without a reader a named pipe cannot be opened for writing alone.
    await using pipe = await open(path, "r+");
    const stderr = {
      pipe: pipe.fd,
      socket: "pipe",
      terminal: "pipe",
      "log file": "ignore",
    } as const;
    const file = kind === "log file" ? [path] : [];
    const node = [process.execPath, "--input-type=module", "--eval", SCRIPT, ...file];
    const command = kind === "terminal" ? ["python3", "-c", TERMINAL, ...node] : node;
    const [program = "", ...words] = command;
    const child = spawn(program, words, { stdio: ["pipe", "pipe", stderr[kind]] });
    onTestFinished(() => endChild(child));
    const [stdin, stdout, socket] = child.stdio;
    assert(stdin !== null && stdout !== null);
    const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
    expect(await lines.next()).toEqual({ done: false, value: "flooded" });
    const log = createInterface({ input: socket ?? createReadStream(path) });
    let isHeard = false;
    log.on("line", (line) => {
      isHeard ||= line.includes('"msg":"heard"');
    });
    // While much of the flood still waits for the reader, lines are lost.
    const say = () => void stdin.write("a line\n");
    await expect.poll(() => (say(), isHeard)).toBe(true);
    stdin.end();
    await once(child, "exit");
    log.close();
  },
);

/** More than a pipe holds, and less than may wait. */
const LAST_SCRIPT = `
import { writeSync } from "node:fs";
import { createLog } from ${JSON.stringify(LOG)};
const log = createLog({ level: "info", file: process.argv[1] });
for (let index = 0; index < 600; index += 1) log.info({ index, text: "x".repeat(200) }, "flood");
log.info("last");
writeSync(1, "written");
`;

test("the last lines to a log file that is a named pipe arrive, although the program ends at once", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "pipe");
  await promisify(execFile)("mkfifo", [path]);
  // Without a reader a named pipe cannot be opened for writing alone, and its reader waits for a writer.
  const pipe = await open(path, "r+");
  const node = ["--input-type=module", "--eval", LAST_SCRIPT, path];
  const child = spawn(process.execPath, node, { stdio: ["ignore", "pipe", "ignore"] });
  onTestFinished(() => endChild(child));
  await once(child.stdout, "data");
  const lines = text((await open(path)).createReadStream());
  await once(child, "exit");
  await pipe.close();
  expect(await lines).toContain('"msg":"last"');
});
