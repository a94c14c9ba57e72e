/**
 * A program whose state is in memory and in a file at once, in sandboxes whose memory moves to disk:
 * memory and files of different moments do not stay unseen.
 */

import { join } from "node:path";
import { Sandbox, type SandboxOpts } from "e2b";
import { expect, vi } from "vitest";
import { z } from "../../../src/common/schema.ts";
import type { FaultHome } from "./fault-home.ts";
import { ANSWER, COUNTER_PORT } from "./memory-counter.ts";

const LIMIT_MS = 60_000;
export const LEDGER_PORT = COUNTER_PORT;

/** Counts in memory and in a file that it keeps open; says `broken` once they differ. */
const PROGRAM = `
import http.server, os, threading, time
n, word, fd = 0, os.urandom(8).hex(), os.open("/home/user/ledger", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"%012d" % n, 0)
block = os.urandom(65536) * 128
digest = hash(block)
def count():
    global n, word
    while True:
        if int(os.pread(fd, 12, 0)) != n or int(open("/home/user/ledger").read()) != n: word = "broken"
        if n % 100 == 99 and hash(bytes(bytearray(block))) != digest: word = "broken"
        n += 1
        os.pwrite(fd, b"%012d" % n, 0)
        time.sleep(0.005)
${ANSWER}`;

export interface Ledger {
  readonly count: number;
  /** Chosen by the process at its start. */
  readonly word: string;
}

/** What the program of a running sandbox has counted. */
export async function readLedger(sandbox: Sandbox): Promise<Ledger> {
  const { stdout } = await sandbox.commands.run(
    `curl -s --max-time 20 127.0.0.1:${LEDGER_PORT} || true`,
  );
  return toLedger(stdout);
}

export function toLedger(text: string): Ledger {
  const [count = "", word = ""] = text.split(" ");
  return { count: Number(count), word };
}

/** A sandbox in which the program runs. */
export async function startLedger(home: FaultHome, options: SandboxOpts = {}): Promise<Sandbox> {
  const wishes = { ...home.client(), timeoutMs: 3_600_000, ...options };
  const sandbox = await Sandbox.create("base", wishes);
  await runLedger(sandbox);
  return sandbox;
}

/** Starts the program in a sandbox. */
export async function runLedger(sandbox: Sandbox): Promise<void> {
  await sandbox.files.write("/home/user/ledger.py", PROGRAM);
  // A client that loses the stream of a command asks for the sandbox's health, which may wake it.
  await sandbox.commands.run("setsid python3 ledger.py >/dev/null 2>&1 </dev/null &");
  const isThere = async () => expect((await readLedger(sandbox)).word).toMatch(/^[0-9a-f]{16}$/);
  await vi.waitFor(isThere, LIMIT_MS);
}

/** Connects, and requires that the program that answered before goes on with its files. */
export async function expectGoesOn(
  home: FaultHome,
  sandboxId: string,
  before: Ledger,
): Promise<Sandbox> {
  const sandbox = await Sandbox.connect(sandboxId, { ...home.client(), timeoutMs: 3_600_000 });
  const after = await readLedger(sandbox);
  expect(after.word).toBe(before.word);
  expect(after.count).toBeGreaterThanOrEqual(before.count);
  await vi.waitFor(async () => {
    const later = await readLedger(sandbox);
    expect([later.word, later.count > after.count]).toEqual([before.word, true]);
  }, LIMIT_MS);
  return sandbox;
}

const detailSchema = z.object({
  state: z.string(),
  pauseMode: z.string().optional(),
  pausedMemory: z.string().optional(),
});

export async function pauseOf(home: FaultHome, sandboxId: string) {
  return detailSchema.parse((await home.call("GET", `/sandboxes/${sandboxId}`))?.body);
}

/** Waits until the memory of a paused sandbox is on disk. */
export async function untilOnDisk(home: FaultHome, sandboxId: string): Promise<void> {
  const onDisk = { state: "paused", pauseMode: "full", pausedMemory: "disk" };
  await vi.waitFor(async () => expect(await pauseOf(home, sandboxId)).toEqual(onDisk), LIMIT_MS);
}

/** The folder of the sandbox's container. */
export function containerOf(home: FaultHome, sandboxId: string): string {
  return join(home.path, "instances/serve/s", sandboxId);
}
