/** R12: no signal has the server open a port or write a file, from its first moment on. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, readlink } from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { tellCells } from "../../support/cells.ts";
import { openTestHome } from "../../support/home.ts";
import { OFFLINE, PROGRAM } from "../../support/program.ts";
import { createRandom } from "../../support/random.ts";
import { openRawStdio } from "../../support/raw-stdio.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const SIGNALS = Array.from({ length: 64 }, (_, index) => index + 1);
const { SIGKILL, SIGSTOP, SIGUSR1 } = constants.signals;
const OTHERS = SIGNALS.filter((signal) => ![SIGKILL, SIGSTOP, SIGUSR1].includes(signal));
/** Node takes SIGUSR1 from some 20 ms on, before any program of ours runs. */
const LATEST_MS = 250;
/** Of SIGUSR1 at moments of the start, and of the other signals. */
const ROUNDS = IS_WHOLE_RUN ? { early: 120, others: OTHERS.length } : { early: 8, others: 4 };
const AT_ONCE = 4;
const SETTLE_LIMIT_MS = 10_000;

/** One server in an empty working directory, which gets one signal; true where it opened the inspector first. */
async function attack(home: string, signal: number, afterMs: number): Promise<boolean> {
  await using folder = await makeTempFolder();
  const child = spawn(process.execPath, [PROGRAM, "stdio", "--home", home], {
    cwd: folder.path,
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", HOME: folder.path, ...OFFLINE },
  });
  const ended = once(child, "exit");
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  // A program that has ended takes no input.
  child.stdin.on("error", () => undefined);
  const raw = openRawStdio(child.stdin, child.stdout);
  try {
    await delay(afterMs);
    send(child, signal);
    // Whoever answers has run what locks the inspector; most signals end the program instead.
    await Promise.race([raw.request("ping").catch(() => undefined), ended]);
    await expect
      .poll(async () => listeningOf(child.pid), { timeout: SETTLE_LIMIT_MS, interval: 20 })
      .toEqual([]);
    expect(await readdir(folder.path), `files after signal ${signal}`).toEqual([]);
  } finally {
    child.stdin.destroy();
    child.kill("SIGKILL");
    await ended;
  }
  return said.includes("Debugger listening");
}

/** By number: real-time signals have no names that Node knows. */
function send({ pid }: ChildProcess, signal: number): void {
  try {
    if (pid !== undefined) process.kill(pid, signal);
  } catch {
    // It has ended, which is no failure of the test.
  }
}

/** Local addresses of the TCP sockets on which a process listens. */
async function listeningOf(pid: number | undefined): Promise<string[]> {
  const links = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const open = await Promise.all(
    links.map(async (name) => readlink(join(`/proc/${pid}/fd`, name)).catch(() => "")),
  );
  const tables = await Promise.all(
    ["tcp", "tcp6"].map(async (name) => readFile(`/proc/net/${name}`, "utf8").catch(() => "")),
  );
  const rows = tables.flatMap((table) => table.split("\n")).map((row) => row.trim().split(/\s+/));
  return rows
    .filter((row) => row[3] === "0A" && open.includes(`socket:[${row[9]}]`))
    .map((row) => row[1] ?? "");
}

test(
  `E42 no signal opens the server's inspector, seed ${SEED}`,
  { timeout: 240_000 },
  async (context) => {
    await using home = await openTestHome();
    const random = createRandom(SEED);
    const early = Array.from({ length: ROUNDS.early }, () => ({
      signal: SIGUSR1,
      afterMs: random.below(LATEST_MS),
    }));
    const others = OTHERS.toSorted(() => random.below(3) - 1)
      .slice(0, ROUNDS.others)
      .map((signal) => ({ signal, afterMs: random.below(2 * LATEST_MS) }));
    const waiting = [...early, ...others];
    const cells = waiting.length;
    let opened = 0;
    const worker = async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        if (await attack(home.path, next.signal, next.afterMs)) opened += 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    // Not every signal meets the moments in which Node itself would open it; across a whole run some do.
    expect(opened).toBeGreaterThan(IS_WHOLE_RUN ? 0 : -1);
    tellCells(context, cells);
  },
);
