/** Guardians of servers that are killed again and again, that are stopped, and whose namespace ends. */

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import {
  createBusy,
  END_LIMIT_MS,
  expectNothing,
  findProcesses,
  killServer,
  NOTHING,
  openGuardedHome,
  startStdio,
} from "../../support/faults/guarded.ts";
import { PROGRAM } from "../../support/program.ts";

const ROUNDS = 6;
const MAX_KILL_DELAY_MS = 1_500;
const SERVERS = 5;

test("a server that is killed at any moment leaves nothing", async () => {
  await using home = await openGuardedHome();
  const delays = Array.from({ length: ROUNDS }, () => Math.random() * MAX_KILL_DELAY_MS);
  for (const delayMs of delays) {
    await using session = await startStdio(home.path);
    const working = createBusy(session).catch(() => undefined);
    await delay(delayMs);
    await killServer(session);
    await expectNothing(home.path);
    void working;
  }
});

test("each of five servers that start at once has a guardian of its own", async () => {
  await using home = await openGuardedHome();
  const start = async () => {
    const session = await startStdio(home.path);
    await createBusy(session);
    return session;
  };
  const sessions = await Promise.all(Array.from({ length: SERVERS }, start));
  expect((await findProcesses(home.path)).guardians).toHaveLength(SERVERS);
  const [survivor, ...victims] = sessions;
  assert.ok(survivor);
  await Promise.all(victims.map(async (session) => killServer(session)));
  await expect
    .poll(async () => (await findProcesses(home.path)).guardians.length, { timeout: END_LIMIT_MS })
    .toBe(1);
  expect((await findProcesses(home.path)).containers.length).toBeGreaterThanOrEqual(1);
  await survivor[Symbol.asyncDispose]();
  expect(await findProcesses(home.path)).toEqual(NOTHING);
});

test("a server that ends waits for a guardian that does not, and leaves nothing", async () => {
  await using home = await openGuardedHome();
  await using session = await startStdio(home.path, ["--pool", "0"]);
  await createBusy(session);
  const [guardian = 0] = (await findProcesses(home.path)).guardians;
  process.kill(guardian, "SIGSTOP");
  session.program.child.stdin?.end();
  expect(await session.program.exited()).toBe(0);
  expect(await findProcesses(home.path)).toEqual(NOTHING);
  expect(await readdir(join(home.path, "instances"))).toEqual([]);
});

/** Every process whose command or cgroup names one of these words. */
async function findByWords(words: readonly string[]): Promise<{ pid: number; command: string }[]> {
  const found: { pid: number; command: string }[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const read = async (file: string) => readFile(`/proc/${name}/${file}`, "utf8").catch(() => "");
    const [command, cgroup] = await Promise.all([read("cmdline"), read("cgroup")]);
    const text = `${command}\n${cgroup}`;
    if (words.some((word) => text.includes(word))) found.push({ pid: Number(name), command });
  }
  return found;
}

test("in a process namespace of its own a killed server leaves nothing", async () => {
  await using home = await openGuardedHome();
  // The first process of the namespace outlives the server.
  const words = ["--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; sleep 20', "sh"];
  const command = ["unshare", ...words, process.execPath, PROGRAM] as const;
  await using session = await startStdio(home.path, [], command);
  const id = await createBusy(session);
  const all = await findByWords([home.path]);
  const server = all.find((entry) => entry.command.startsWith(`${process.execPath}\0${PROGRAM}`));
  assert.ok(server);
  expect((await findByWords([id])).length).toBeGreaterThan(1);
  process.kill(server.pid, "SIGKILL");
  const left = async () => (await findByWords([`${home.path}/`, id])).map((entry) => entry.command);
  await expect.poll(left, { timeout: END_LIMIT_MS }).toEqual([]);
  await killServer(session);
});
