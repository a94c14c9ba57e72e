/** R12: no signal has the server open a port or write a file, from its first moment on. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { constants } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { openTestHome } from "../../support/home.ts";
import { openRawStdio, type RawStdio } from "../../support/mcp/raw-stdio.ts";
import { listenersOf } from "../../support/network/listeners.ts";
import { OFFLINE, PROGRAM } from "../../support/program.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const SIGNALS = Array.from({ length: 64 }, (_, index) => index + 1);
const { SIGKILL, SIGSTOP, SIGUSR1 } = constants.signals;
const OTHERS = SIGNALS.filter((signal) => ![SIGKILL, SIGSTOP, SIGUSR1].includes(signal));
/** Node takes SIGUSR1 from some 20 ms on, before any program of ours runs. */
const LATEST_MS = 250;
/** Of SIGUSR1 at moments of the start, and of the other signals. */
const ROUNDS = IS_WHOLE_RUN
  ? { early: 120, others: OTHERS.length, states: OTHERS.length }
  : { early: 8, others: 4, states: 2 };
/** At once, of a server under calls. */
const CALLS = 20;
const AT_ONCE = 4;
const SETTLE_LIMIT_MS = 10_000;

interface Moment {
  readonly signal: number;
  /** Milliseconds after the start, or what a server does that has answered. */
  readonly when: number | "idle" | "under calls";
}

/** One server in an empty working directory, which gets one signal; true where it opened the inspector first. */
async function attack(home: string, { signal, when }: Moment): Promise<boolean> {
  await using folder = await makeTempFolder();
  // Its end is sudden: a sandbox of a pool would stay.
  const child = spawn(process.execPath, [PROGRAM, "stdio", "--home", home, "--pool", "0"], {
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
    if (typeof when === "number") await delay(when);
    else await raw.initialize();
    const calls = when === "under calls" ? callOften(raw) : [];
    send(child, signal);
    // Whoever answers has run what locks the inspector; most signals end the program instead.
    await Promise.race([raw.request("ping").catch(() => undefined), ended]);
    await Promise.race([Promise.all(calls), ended]);
    await expect
      .poll(async () => listenersOf(child.pid ?? 0), { timeout: SETTLE_LIMIT_MS, interval: 20 })
      .toEqual([]);
    expect(await readdir(folder.path), `files after signal ${signal}`).toEqual([]);
  } finally {
    child.stdin.destroy();
    child.kill("SIGKILL");
    await ended;
  }
  return said.includes("Debugger listening");
}

/** What a server is at work on when a signal comes; whether it answers is for other tests. */
function callOften(raw: RawStdio): readonly Promise<unknown>[] {
  return Array.from({ length: CALLS }, async (_none, index) => {
    const list = { name: "list_sandboxes", arguments: {} };
    const call = index % 2 === 0 ? raw.request("tools/call", list) : raw.request("tools/list");
    return call.catch(() => undefined);
  });
}

/** By number: real-time signals have no names that Node knows. */
function send({ pid }: ChildProcess, signal: number): void {
  try {
    if (pid !== undefined) process.kill(pid, signal);
  } catch {
    // It has ended, which is no failure of the test.
  }
}

/** Attacks, by several at once: how many, and of how many the inspector was open first. */
async function attackAll(home: string, moments: readonly Moment[]) {
  const waiting = [...moments];
  const said = { attacked: 0, opened: 0 };
  const worker = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (await attack(home, next)) said.opened += 1;
      said.attacked += 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return said;
}

/** SIGUSR1 at moments of the start. */
function earlyMoments(random: Random): Moment[] {
  const one = () => ({ signal: SIGUSR1, when: random.below(LATEST_MS) });
  return Array.from({ length: ROUNDS.early }, one);
}

function shuffled(random: Random): readonly number[] {
  const keyed = OTHERS.map((signal) => ({ signal, key: random.below(1_000_000) }));
  return keyed.toSorted((left, right) => left.key - right.key).map(({ signal }) => signal);
}

const LIMIT = { timeout: 240_000 };

test(`E42 no signal opens the server's inspector, seed ${SEED}`, LIMIT, async (context) => {
  await using home = await openTestHome();
  const random = createRandom(SEED);
  const others = shuffled(random)
    .slice(0, ROUNDS.others)
    .map((signal) => ({ signal, when: random.below(2 * LATEST_MS) }));
  const moments = [...earlyMoments(random), ...others];
  const { attacked } = await attackAll(home.path, moments);
  expect(attacked).toBe(ROUNDS.early + ROUNDS.others);
  tellCells(context, attacked);
});

// Not every signal meets the moments in which Node itself opens it; of so many some do.
test.runIf(IS_WHOLE_RUN)(
  `E42 control: some servers had opened the inspector before their lock shut it, seed ${SEED}`,
  LIMIT,
  async () => {
    await using home = await openTestHome();
    const { opened } = await attackAll(home.path, earlyMoments(createRandom(SEED)));
    expect(opened).toBeGreaterThan(0);
  },
);

test("E42 control: a program without the lock opens a port, which is seen", async () => {
  const script = "setInterval(() => {}, 1000); console.log('ready')";
  const child = spawn(process.execPath, ["--inspect-port=0", "--eval", script], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(child, "exit");
  try {
    await once(child.stdout, "data");
    send(child, SIGUSR1);
    await expect.poll(async () => listenersOf(child.pid ?? 0)).toHaveLength(1);
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
});

test.for(["idle", "under calls"] as const)(
  `E42 no signal to a server that is %s opens its inspector, seed ${SEED}`,
  LIMIT,
  async (state, context) => {
    await using home = await openTestHome();
    const random = createRandom(SEED);
    const moments = [SIGUSR1, ...shuffled(random).slice(0, ROUNDS.states)].map((signal) => ({
      signal,
      when: state,
    }));
    // Once it has answered, not even for a moment.
    const said = { attacked: moments.length, opened: 0 };
    expect(await attackAll(home.path, moments)).toEqual(said);
    tellCells(context, said.attacked);
  },
);
