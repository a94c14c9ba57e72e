/** A service that was killed leaves no sandbox: its guardian ends each one by its rule, then itself. */

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import {
  createBusy,
  END_LIMIT_MS,
  findProcesses,
  NOTHING,
  openGuardedHome,
  startStdio,
  type Session,
} from "../support/guarded.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";
import { PROGRAM } from "../support/program.ts";

const MAX_MEMORY_KB = 2_048;
const ROUNDS = 6;
const MAX_KILL_DELAY_MS = 1_500;
const SERVERS = 5;

async function expectNothing(home: string): Promise<void> {
  await expect
    .poll(async () => findProcesses(home), { timeout: END_LIMIT_MS, interval: 100 })
    .toEqual(NOTHING);
}

async function kill({ program }: Session): Promise<void> {
  program.child.kill("SIGKILL");
  await program.exited();
}

test("the sandboxes of a killed stdio server end, and its guardian after them", async () => {
  const before = await takeCensus();
  {
    await using home = await openGuardedHome();
    await using session = await startStdio(home.path);
    const paused = await createBusy(session);
    await session.raw.request("tools/call", {
      name: "pause_sandbox",
      arguments: { sandbox_id: paused },
    });
    await createBusy(session);
    const { guardians, containers } = await findProcesses(home.path);
    expect(guardians).toHaveLength(1);
    expect(containers.length).toBeGreaterThanOrEqual(2);
    const status = await readFile(`/proc/${guardians[0]}/status`, "utf8");
    const kilobytes = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
    expect(kilobytes).toBeGreaterThan(0);
    expect(kilobytes).toBeLessThanOrEqual(MAX_MEMORY_KB);
    await kill(session);
    await expectNothing(home.path);
  }
  expect(await takeCensus()).toEqual(before);
});

test("a server that is killed at any moment leaves nothing", async () => {
  await using home = await openGuardedHome();
  const delays = Array.from({ length: ROUNDS }, () => Math.random() * MAX_KILL_DELAY_MS);
  for (const delayMs of delays) {
    await using session = await startStdio(home.path);
    const working = createBusy(session).catch(() => undefined);
    await delay(delayMs);
    await kill(session);
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
  await Promise.all(victims.map(async (session) => kill(session)));
  await expect
    .poll(async () => (await findProcesses(home.path)).guardians.length, { timeout: END_LIMIT_MS })
    .toBe(1);
  expect((await findProcesses(home.path)).containers.length).toBeGreaterThanOrEqual(1);
  await survivor[Symbol.asyncDispose]();
  expect(await findProcesses(home.path)).toEqual(NOTHING);
});

test("a guardian that was killed is replaced, and the new one does the same", async () => {
  await using home = await openGuardedHome();
  await using session = await startStdio(home.path);
  await createBusy(session);
  const [first = 0] = (await findProcesses(home.path)).guardians;
  process.kill(first, "SIGKILL");
  const others = async () =>
    (await findProcesses(home.path)).guardians.filter((pid) => pid !== first);
  await expect.poll(others).toHaveLength(1);
  await kill(session);
  await expectNothing(home.path);
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

test("the guardian is gone once the last sandbox is, and comes back with the next one", async () => {
  await using home = await openGuardedHome();
  await using session = await startStdio(home.path, ["--pool", "0"]);
  for (const round of [1, 2]) {
    const id = await createBusy(session);
    expect((await findProcesses(home.path)).guardians, `round ${round}`).toHaveLength(1);
    await session.raw.request("tools/call", {
      name: "kill_sandbox",
      arguments: { sandbox_id: id },
    });
    await expect.poll(async () => findProcesses(home.path)).toEqual(NOTHING);
  }
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
  await kill(session);
});

test("an ordinary user's killed server leaves nothing either, running or paused", async () => {
  await using person = await openOrdinaryUser({ ids: true });
  await using session = await startStdio(person.data, [], person.program);
  const paused = await createBusy(session);
  await session.raw.request("tools/call", {
    name: "pause_sandbox",
    arguments: { sandbox_id: paused },
  });
  await createBusy(session);
  const { guardians, containers } = await findProcesses(person.data);
  expect(guardians).toHaveLength(1);
  expect(containers.length).toBeGreaterThanOrEqual(2);
  await kill(session);
  await expectNothing(person.data);
  await expect.poll(async () => person.processes()).toEqual([]);
});
