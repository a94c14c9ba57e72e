/**
 * Orders in any order for three sandboxes with a kernel of their own, and kills of the service and of each
 * process beside it: after each step each sandbox goes on with its memory, files and connections, or is
 * told as ended. At the end nothing is left.
 */

import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { processesOf, startCompanions } from "../../support/faults/companions.ts";
import {
  findRemains,
  listAll,
  openFaultHome,
  type FaultHome,
} from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { expectGoesOn, readLedger, startLedger, type Ledger } from "../../support/faults/ledger.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const runtime = gvisorRuntime();
const { isWhole, random } = faultRun();
const ROUNDS = Number(process.env["MEMORY_ROUNDS"] ?? (isWhole ? 200 : 6));
const LIMIT_MS = 120_000 + ROUNDS * 30_000;
const SANDBOXES = 3;
/** From before an order reaches the engine to after its answer. */
const MAX_ORDER_MS = 600;
/** The service looks each second whether the processes beside a sandbox are there. */
const END_LIMIT_MS = 10_000;

interface Subject {
  readonly id: string;
  readonly processes: string;
  before: Ledger;
  isPaused: boolean;
}

interface World {
  readonly home: FaultHome;
  readonly subjects: Subject[];
}

async function startSubject(home: FaultHome): Promise<Subject> {
  const sandbox = await startLedger(home);
  const processes = await startCompanions(sandbox);
  const before = await readLedger(sandbox);
  return { id: sandbox.sandboxId, processes, before, isPaused: false };
}

async function connect({ home }: World, { id }: Subject): Promise<Sandbox> {
  return Sandbox.connect(id, { ...home.client(), timeoutMs: 3_600_000 });
}

async function check(world: World, subject: Subject): Promise<void> {
  const { home } = world;
  const found = (await listAll(home)).find(({ sandboxID }) => sandboxID === subject.id);
  expect(found?.state).toBe(subject.isPaused ? "paused" : "running");
  if (subject.isPaused) return;
  const sandbox = await expectGoesOn(home, subject.id, subject.before);
  expect(await processesOf(sandbox)).toBe(subject.processes);
  subject.before = await readLedger(sandbox);
}

async function checkCopy({ before, processes }: Subject, copy: Sandbox): Promise<void> {
  const ledger = await readLedger(copy);
  expect([ledger.word, ledger.count >= before.count]).toEqual([before.word, true]);
  expect(await processesOf(copy)).toBe(processes);
  await copy.kill();
}

/** The order on the wire; undefined when the service died before its answer. */
const ORDERS = {
  pause: async ({ home }: World, { id }: Subject) => home.call("POST", `/sandboxes/${id}/pause`),
  connect: async ({ home }: World, { id }: Subject) =>
    home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 }),
  snapshot: async ({ home }: World, { id }: Subject) =>
    home.call("POST", `/sandboxes/${id}/snapshots`, {}),
  fork: async ({ home }: World, { id }: Subject) =>
    home.call("POST", `/sandboxes/${id}/fork`, { timeout: 3600 }),
} as const;
const ORDER_NAMES = ["pause", "connect", "snapshot", "fork"] as const;

/** What orders made whose answer never came. */
async function removeStrangers({ home, subjects }: World): Promise<void> {
  const own = new Set(subjects.map(({ id }) => id));
  for (const { sandboxID } of await listAll(home)) {
    if (!own.has(sandboxID)) await Sandbox.kill(sandboxID, home.client());
  }
  for (const { snapshotId } of await Sandbox.listSnapshots(home.client()).nextItems()) {
    await Sandbox.deleteSnapshot(snapshotId, home.client());
  }
}

/** Kills the process of this sandbox that has the word in its command; whether there was one. */
async function killIfThere({ id }: Subject, word: string): Promise<boolean> {
  let killed = 0;
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const words = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (!words.includes(word) || !words.includes(id)) continue;
    process.kill(Number(pid), "SIGKILL");
    // Until its end it may take connections that it never answers.
    await expect.poll(() => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).toBe("");
    killed += 1;
  }
  return killed > 0;
}

/** One whose memory is on disk has no process: it is connected then. */
async function killBeside(world: World, subject: Subject, word: string): Promise<void> {
  if (await killIfThere(subject, word)) return;
  expect(subject.isPaused).toBe(true);
  await STEPS["connect"]?.(world, subject);
  expect(await killIfThere(subject, word)).toBe(true);
}

async function restart({ home, subjects }: World, meanwhile?: Promise<unknown>): Promise<void> {
  await home.stop("SIGKILL");
  await meanwhile;
  await home.start();
  const listed = new Map((await listAll(home)).map((one) => [one.sandboxID, one.state]));
  for (const subject of subjects) subject.isPaused = listed.get(subject.id) === "paused";
}

async function replace(world: World, subject: Subject): Promise<void> {
  const isThere = async () =>
    (await listAll(world.home)).some(({ sandboxID }) => sandboxID === subject.id);
  await expect.poll(isThere, { timeout: END_LIMIT_MS }).toBe(false);
  world.subjects[world.subjects.indexOf(subject)] = await startSubject(world.home);
}

async function cutOrder(world: World, subject: Subject): Promise<void> {
  const order = ORDERS[random.pick(ORDER_NAMES)](world, subject);
  await delay(random.below(MAX_ORDER_MS));
  await restart(world, order);
  await removeStrangers(world);
}

const STEPS: Readonly<Record<string, (world: World, subject: Subject) => Promise<void>>> = {
  async pause({ home }, subject) {
    await Sandbox.pause(subject.id, home.client());
    subject.isPaused = true;
  },
  async connect(world, subject) {
    await connect(world, subject);
    subject.isPaused = false;
  },
  async snapshot(world, subject) {
    const { home } = world;
    await STEPS["connect"]?.(world, subject);
    const { snapshotId } = await Sandbox.createSnapshot(subject.id, home.client());
    const copy = await Sandbox.create(snapshotId, { ...home.client(), timeoutMs: 600_000 });
    await checkCopy(subject, copy);
    await Sandbox.deleteSnapshot(snapshotId, home.client());
  },
  async fork(world, subject) {
    const sandbox = await connect(world, subject);
    subject.isPaused = false;
    const made = await sandbox.fork({ count: 2, timeoutMs: 600_000 });
    const copies = made.filter((one) => one instanceof Sandbox);
    expect(copies).toHaveLength(2);
    for (const copy of copies) await checkCopy(subject, copy);
  },
  async kill(world, subject) {
    await Sandbox.kill(subject.id, world.home.client());
    await replace(world, subject);
  },
  service: async (world) => restart(world),
  cutOrder,
  cutAgain: cutOrder,
  async sentry(world, subject) {
    await killBeside(world, subject, "runsc-sandbox");
    await replace(world, subject);
  },
  async gofer(world, subject) {
    // That of a paused one is missed by its programs when they go on.
    await connect(world, subject);
    await killBeside(world, subject, "runsc-gofer");
    await replace(world, subject);
  },
  relay: async (world, subject) => killBeside(world, subject, "sentry-relay"),
  async relayAndService(world, subject) {
    await killBeside(world, subject, "sentry-relay");
    await restart(world);
  },
  async relayInOrder(world, subject) {
    const name = subject.isPaused ? "connect" : "pause";
    const order = ORDERS[name](world, subject);
    await delay(random.below(30));
    await killIfThere(subject, "sentry-relay");
    await order;
    const listed = await listAll(world.home);
    subject.isPaused = listed.find(({ sandboxID }) => sandboxID === subject.id)?.state === "paused";
  },
};
const NAMES = Object.keys(STEPS);

test.skipIf(runtime === undefined)(
  "R2 orders and kills at random: each sandbox goes on or is told as ended, and nothing is left",
  { timeout: LIMIT_MS },
  async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    const more = [[], ["--encrypt-snapshots"], ["--pause-to-disk", "after=1"]];
    const flags = [...level, ...random.pick(more)];
    await using home = await openFaultHome(flags);
    await home.start();
    const subjects: Subject[] = [];
    for (let count = 0; count < SANDBOXES; count += 1) subjects.push(await startSubject(home));
    const world: World = { home, subjects };
    const done: string[] = [];
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        const name = random.pick(NAMES);
        const subject = random.pick(subjects);
        done.push(`${name} ${subject.id}`);
        await STEPS[name]?.(world, subject);
        for (const each of subjects) await check(world, each);
      }
      for (const { id } of subjects) await Sandbox.kill(id, home.client());
    } catch (error) {
      const steps = done.join("\n");
      throw new Error(`${flags.at(-1)}: ${steps}\n${home.stderr().slice(-6_000)}`, {
        cause: error,
      });
    }
    await home.stop("SIGTERM");
    expect(await findRemains(home)).toEqual([]);
  },
);
