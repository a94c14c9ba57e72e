/** Pipes for processes where descriptors run out. */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { createPipeSource } from "../../../src/envd/process/pipes.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SOURCE = resolve(import.meta.dirname, "../../../src/envd/process/pipes.ts");
const HELPER = join(PERL_DIRECTORY, "make-pipes.pl");

/** Has so many descriptors left while pipes are made; prints how many stay open after that. */
const PROGRAM = `
import { closeSync, openSync, readdirSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
const [source, helper] = process.argv.slice(1);
const { createPipeSource } = await import(source);
const count = () => readdirSync("/proc/self/fd").length;
// The platform keeps a descriptor from the first helper on.
await createPipeSource(["perl", "-f", helper]).prepare();
for (const left of [40, 41]) {
  const before = count();
  const held = [];
  try {
    for (;;) held.push(openSync("/dev/null"));
  } catch {}
  for (const file of held.splice(-left)) closeSync(file);
  await createPipeSource(["perl", "-f", helper]).prepare().catch(({ code }) => console.log(code));
  for (const file of held) closeSync(file);
  // The streams of the helper may close later.
  for (let look = 0; look < 100 && (count() - before) % 2 === 1; look += 1) await setTimeout(10);
  console.log((count() - before) % 2);
}
process.exit(0);
`;

test("a pipe that cannot be opened whole leaves no end of it open", () => {
  const words = ["--input-type=module", "--eval", PROGRAM, "--", SOURCE, HELPER];
  const limited = ["-c", 'ulimit -n 300 && exec "$0" "$@"', process.execPath, ...words];
  const said = execFileSync("sh", limited, { encoding: "utf8" });
  // Each pipe that was made has two ends, until a process takes them.
  expect(said.trim().split("\n")).toEqual(["EMFILE", "0", "EMFILE", "0"]);
});

/** Takes all descriptors while the helper runs; prints the fault, and how many directories are left. */
const GREEDY = `
import { closeSync, openSync, readdirSync } from "node:fs";
import { setImmediate, setTimeout } from "node:timers/promises";
const [source, helper] = process.argv.slice(1);
const { createPipeSource } = await import(source);
await createPipeSource(["perl", "-f", helper]).prepare();
let fault;
const held = [];
createPipeSource(["perl", "-f", helper]).prepare().catch(({ code }) => (fault = code));
while (fault === undefined) {
  try {
    for (;;) held.push(openSync("/dev/null"));
  } catch {}
  await setImmediate();
}
for (const file of held) closeSync(file);
console.log(fault);
const left = () => readdirSync("/dev/shm").length;
for (let look = 0; look < 1_000 && left() > 0; look += 1) await setTimeout(10);
console.log(left());
process.exit(0);
`;

test("pipes that cannot be made for want of descriptors leave no directory", () => {
  const words = ["--input-type=module", "--eval", GREEDY, "--", SOURCE, HELPER];
  const script = 'mount -t tmpfs none /dev/shm && ulimit -n 120 && exec "$0" "$@"';
  const own = ["--user", "--map-root-user", "--mount", "sh", "-c", script, process.execPath];
  const said = execFileSync("unshare", [...own, ...words], { encoding: "utf8" });
  expect(said.trim().split("\n")).toEqual(["EMFILE", "0"]);
});

test("what keeps the helper from making pipes is the error", async () => {
  const source = createPipeSource(["sh", "-c", "echo 'mkdir: No space left on device' >&2"]);
  await expect(source.prepare()).rejects.toThrow(/^mkdir: No space left on device$/);
});

test("a kill of the daemon's whole process group leaves no directory of pipes", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "pipes");
  const words = ["-f", HELPER, process.arch, directory, "3"];
  const daemon = spawn("sh", ["-c", 'exec 3<&0; perl "$@" <&3 3<&- & wait', "sh", ...words], {
    detached: true,
    stdio: ["pipe", "ignore", "pipe"],
  });
  // The helper closes it when all pipes are there; the shell has it as well.
  await expect.poll(() => existsSync(join(directory, "3"))).toBe(true);
  process.kill(-(daemon.pid ?? 0), "SIGKILL");
  await once(daemon, "exit");
  daemon.stdin.destroy();
  await expect.poll(() => existsSync(directory), { timeout: 5_000 }).toBe(false);
});
