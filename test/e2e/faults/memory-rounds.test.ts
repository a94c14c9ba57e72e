/**
 * Pauses, connects, snapshots and forks of one sandbox at random, whose programs check their own memory
 * and files: after each round no byte is another, and no process has ended.
 */

import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { processesOf, startCompanions } from "../../support/faults/companions.ts";
import { openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { expectGoesOn, readLedger, startLedger, type Ledger } from "../../support/faults/ledger.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const runtime = gvisorRuntime();
const { isWhole, random } = faultRun();
const ROUNDS = Number(process.env["MEMORY_ROUNDS"] ?? (isWhole ? 200 : 10));
const LIMIT_MS = 60_000 + ROUNDS * 20_000;
const MAX_FORKS = 3;

interface World {
  readonly home: FaultHome;
  readonly sandbox: Sandbox;
  before: Ledger;
  /** What its programs were at the start. */
  readonly processes: string;
}

async function checkCopy({ before, processes }: World, copy: Sandbox): Promise<void> {
  const ledger = await readLedger(copy);
  expect([ledger.word, ledger.count >= before.count]).toEqual([before.word, true]);
  expect(await processesOf(copy)).toBe(processes);
  await copy.kill();
}

const ACTS: Readonly<Record<string, (world: World) => Promise<void>>> = {
  async pause({ home, sandbox }) {
    await sandbox.pause();
    await Sandbox.connect(sandbox.sandboxId, home.client());
  },
  async snapshot({ home, sandbox }) {
    const { snapshotId } = await sandbox.createSnapshot();
    await Sandbox.deleteSnapshot(snapshotId, home.client());
  },
  async copy(world) {
    const { home, sandbox } = world;
    const { snapshotId } = await sandbox.createSnapshot();
    await checkCopy(world, await Sandbox.create(snapshotId, home.client()));
    await Sandbox.deleteSnapshot(snapshotId, home.client());
  },
  async fork(world) {
    const count = 1 + random.below(MAX_FORKS);
    const made = await world.sandbox.fork({ count, timeoutMs: 120_000 });
    const copies = made.filter((one) => one instanceof Sandbox);
    expect(copies).toHaveLength(count);
    for (const copy of copies) await checkCopy(world, copy);
  },
};
const NAMES = Object.keys(ACTS);

test.skipIf(runtime === undefined)(
  "R2 rounds of pauses, snapshots and forks at random change no byte and end no process",
  { timeout: LIMIT_MS },
  async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    const flags = random.below(2) === 0 ? level : [...level, "--encrypt-snapshots"];
    await using home = await openFaultHome(flags);
    await home.start();
    const sandbox = await startLedger(home);
    const processes = await startCompanions(sandbox);
    const world: World = { home, sandbox, before: await readLedger(sandbox), processes };
    const done: string[] = [];
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        const name = random.pick(NAMES);
        done.push(name);
        await ACTS[name]?.(world);
        await expectGoesOn(home, sandbox.sandboxId, world.before);
        await sandbox.commands.run(`echo ${round} >/tmp/pipe`);
        const lines = await sandbox.commands.run(
          "until [ -s /tmp/lines ]; do :; done; wc -l </tmp/lines",
        );
        expect(Number(lines.stdout)).toBeGreaterThanOrEqual(round);
        expect(await processesOf(sandbox)).toBe(processes);
        world.before = await readLedger(sandbox);
      }
    } catch (error) {
      const acts = done.join(" ");
      throw new Error(`${flags.at(-1)}: ${acts}\n${home.stderr().slice(-4_000)}`, { cause: error });
    }
  },
);
