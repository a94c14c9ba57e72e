/**
 * The power of the home's disk is cut at any moment: of what was written since its last flush any part may
 * be there. The next start finds everything that was acknowledged, and nothing half-made.
 */

import { randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { whyNoFuse } from "../../support/faults/fuse.ts";
import { checkCut, serveCut, type History } from "../../support/power-cuts/check-cut.ts";
import { checkCuts, createFaultList, type FaultList } from "../../support/power-cuts/check-cuts.ts";
import {
  openCutDisks,
  withCut,
  type CutDisks,
  type Recording,
} from "../../support/power-cuts/cut-disks.ts";
import { startCutWorker } from "../../support/power-cuts/cut-workers.ts";
import { openRecordedDisk, type RecordedDisk } from "../../support/power-cuts/recorded-disk.ts";
import type { Cut } from "../../support/power-cuts/replay.ts";
import { beginWork, upload, work } from "../../support/power-cuts/work.ts";
import { startProgram } from "../../support/program.ts";
import { tellCells } from "../../support/run/cells.ts";

const { isWhole, random } = faultRun();
const LIMIT_MS = isWhole ? 3 * 3_600_000 : 900_000;
const CUTS = Number(process.env["POWER_CUTS"] ?? (isWhole ? 10_000 : 200));
/** Those on which a service is started, of each kind of home. */
const STARTS = isWhole ? 40 : 1;
const ROUNDS = isWhole ? 4 : 1;
const NO_SYNC = resolve(import.meta.dirname, "../../support/power-cuts/no-sync.ts");
/** Small disks are compared quickly. */
const FLAGS = [...NO_POOL, "--disk-mb", "64", "--volume-mb", "64"];
/** Of each program that checks them; its start takes as long as a few. */
const MIN_CUTS = 100;
const tell = (line: string) => void process.stdout.write(`power cuts: ${line}\n`);

/** What the work left, and the disk whose service has ended. */
interface Recorded {
  readonly recording: Recording;
  readonly history: History;
  /** How many writes there were. */
  readonly end: number;
  /** An upload that was acknowledged by a service that brings nothing to disk, and when. */
  readonly careless: { readonly history: History; readonly position: number };
}

async function record(home: FaultHome, disk: RecordedDisk): Promise<Recorded> {
  await home.start();
  const state = beginWork(home, () => disk.position());
  await work(state, ROUNDS);
  const [volumeID = "", token = ""] = [...state.tokens].at(0) ?? [];
  const end = disk.position();
  await home.stop("SIGTERM");
  await home.start([NO_SYNC]);
  const other = beginWork(home, () => disk.position());
  const bytes = randomBytes(10_000);
  await upload(other, { volumeID, token }, { path: "careless", bytes });
  const careless = { history: other, position: disk.position() };
  const recording = await disk.end();
  await home.stop("SIGTERM");
  await startProgram(["gc", "--home", home.path]).exited();
  await disk.unmount();
  return { recording, history: state, end, careless };
}

/** Of files that are uploaded again and again, beside other work. */
const REPEATED = / f[0-9]$/;

/** At each acknowledgment one with nothing but what was flushed; the others anywhere. */
function chooseCuts({ history, end }: Recorded, count: number): readonly Cut[] {
  const answers = history.ledger.answers(() => true);
  const single = history.ledger.answers((name) => !REPEATED.test(name));
  const strict = isWhole ? answers : single;
  const cuts = strict.map((position): Cut => ({ position, unflushed: "none", seed: 0 }));
  while (cuts.length < count) {
    const near = random.pick(answers) + random.below(40) - 20;
    const position = random.once(2) ? random.below(end) : Math.max(0, Math.min(near, end));
    const unflushed = random.pick(["none", "all", "some", "some"] as const);
    cuts.push({ position, unflushed, seed: random.below(1_000_000_000) });
  }
  return cuts.toSorted((left, right) => left.position - right.position);
}

interface Cuts {
  readonly recorded: Recorded;
  readonly cuts: readonly Cut[];
  readonly list: FaultList;
}

/** By as many programs as there are processors. */
async function checkAll({ recorded, cuts, list }: Cuts): Promise<number> {
  const { recording, history } = recorded;
  await using stack = new AsyncDisposableStack();
  const count = Math.min(availableParallelism(), Math.ceil(cuts.length / MIN_CUTS));
  const starts = Array.from({ length: count }, async () => startCutWorker(recording, history));
  for (const start of await Promise.allSettled(starts)) {
    if (start.status === "fulfilled") stack.use(start.value);
  }
  const workers = await Promise.all(starts);
  const checks = workers.map((worker) => async (cut: Cut) => worker.check(cut));
  return await checkCuts({ cuts, checks, list, tell });
}

test.skipIf(whyNoFuse() !== "").for([
  { title: "ext4", share: 0.85, flags: FLAGS },
  // Three file systems in each other take longer to mount.
  { title: "ext4 with a store", share: 0.15, flags: [...FLAGS, "--store-gb", "24"] },
])(
  `R17 power cuts of a home on $title ${whyNoFuse()}`,
  { timeout: LIMIT_MS },
  async ({ share, flags }, context) => {
    const count = Math.round(CUTS * share);
    let opened: RecordedDisk | undefined;
    await using home = await openFaultHome(flags, async () => (opened = await openRecordedDisk()));
    if (opened === undefined) throw new Error("no disk");
    const disk = opened;
    const recorded = await record(home, disk);
    const { recording, history, end, careless } = recorded;
    const { ledger } = history;
    await using disks = await openCutDisks(recording);

    // Of a disk that lies about its flushes everything is lost, and the comparison says so.
    const lying = { position: end, unflushed: "none", seed: 0, ignoresFlushes: true } as const;
    const lost = await withCut(disks, lying, () => checkCut(home.path, history, end));
    const kept = ledger.names.filter((name) => ledger.acknowledged(name, end) !== undefined);
    expect(lost.length).toBeGreaterThanOrEqual(kept.length);

    const list = createFaultList(tell);
    const cuts = chooseCuts(recorded, count);
    const served = new Set(Array.from({ length: STARTS }, () => random.below(cuts.length)));
    const run = { recorded, cuts, list };
    const chosen = cuts.filter((_cut, index) => served.has(index));
    const parts = [
      checkAll(run),
      serveAll({ ...run, cuts: chosen }, { home, disk, disks }),
    ] as const;
    await Promise.allSettled(parts);
    const [checked] = await Promise.all(parts);
    tell(`${checked} cuts of ${end} writes and flushes, ${list.faults.size} faults`);
    expect([...list.faults]).toEqual([]);

    // A service that does not bring an upload to disk loses it, and the comparison says so.
    const { position } = careless;
    const missing = await withCut(disks, { position, unflushed: "none", seed: 0 }, () =>
      checkCut(home.path, careless.history, position),
    );
    expect(missing).toEqual([expect.stringMatching(/^file \S+ careless is undefined/)]);
    tellCells(context, cuts.length);
  },
);

interface Place {
  readonly home: FaultHome;
  readonly disk: RecordedDisk;
  readonly disks: CutDisks;
}

/** Meanwhile: the programs that check the others do not see these. */
async function serveAll(
  { recorded: { history }, cuts, list }: Cuts,
  { home, disk, disks }: Place,
): Promise<void> {
  for (const cut of cuts) {
    if (list.isFull()) return;
    const found = await withCut(disks, cut, async () => {
      await disk.bindBase();
      try {
        return await serveCut(home, history, cut.position);
      } finally {
        await home.stop("SIGTERM");
        await startProgram(["gc", "--home", home.path]).exited();
      }
    });
    list.add(found, cut);
  }
}
