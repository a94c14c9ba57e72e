/**
 * The power of the home's disk is cut at any moment: of what was written since its last flush any part may
 * be there. The next start finds everything that was acknowledged, and nothing half-made.
 */

import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { whyNoFuse } from "../../support/faults/fuse.ts";
import { checkCut, serveCut, type History } from "../../support/power-cuts/check-cut.ts";
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
const MAX_TOLD = 20;

/** What the work left, and the disk whose service has ended. */
interface Recorded {
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
  await disk.end();
  await home.stop("SIGTERM");
  await startProgram(["gc", "--home", home.path]).exited();
  await disk.unmount();
  return { history: state, end, careless };
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

async function withCut<T>(disk: RecordedDisk, cut: Cut, look: () => Promise<T>): Promise<T> {
  await disk.mountCut(cut);
  try {
    return await look();
  } finally {
    await disk.unmount();
  }
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
    const { history, end, careless } = recorded;
    const { ledger } = history;

    // Of a disk that lies about its flushes everything is lost, and the comparison says so.
    const lying = { position: end, unflushed: "none", seed: 0, ignoresFlushes: true } as const;
    const lost = await withCut(disk, lying, () => checkCut(home.path, history, end));
    const kept = ledger.names.filter((name) => ledger.acknowledged(name, end) !== undefined);
    expect(lost.length).toBeGreaterThanOrEqual(kept.length);

    /** With the first cut that showed it. */
    const faults = new Map<string, string>();
    const cuts = chooseCuts(recorded, count);
    const served = new Set(Array.from({ length: STARTS }, () => random.below(cuts.length)));
    for (const [index, cut] of cuts.entries()) {
      const { position } = cut;
      const found = await withCut(disk, cut, () => checkCut(home.path, history, position));
      if (served.has(index)) {
        found.push(
          ...(await withCut(disk, cut, async () =>
            serve(home, disk, () => serveCut(home, history, position)),
          )),
        );
      }
      for (const fault of found) {
        if (!faults.has(fault)) faults.set(fault, JSON.stringify(cut));
      }
      if (faults.size > MAX_TOLD) break;
    }
    process.stdout.write(`${cuts.length} cuts of ${end} writes and flushes\n`);
    expect([...faults]).toEqual([]);

    // A service that does not bring an upload to disk loses it, and the comparison says so.
    const { position } = careless;
    const missing = await withCut(disk, { position, unflushed: "none", seed: 0 }, () =>
      checkCut(home.path, careless.history, position),
    );
    expect(missing).toEqual([expect.stringMatching(/^file \S+ careless is undefined/)]);
    tellCells(context, cuts.length);
  },
);

async function serve<T>(home: FaultHome, disk: RecordedDisk, use: () => Promise<T>): Promise<T> {
  await disk.bindBase();
  try {
    return await use();
  } finally {
    await home.stop("SIGTERM");
    await startProgram(["gc", "--home", home.path]).exited();
  }
}
