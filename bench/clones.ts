/** Snapshots and forks in a store, whose file system shares blocks. */

import type { Row } from "./figure.ts";
import { measureForks, measureSnapshots, type SnapshotCase } from "./life.ts";
import { startService } from "./service.ts";

const WHERE = ", store";
const LIMITS = { maxMs: 50, maxStoppedMs: 10, where: WHERE } as const;
const CASES: readonly SnapshotCase[] = [
  { ...LIMITS, id: "snapshot-8-clone", mb: 8, samples: 10 },
  { ...LIMITS, id: "snapshot-1000-clone", mb: 1_000, samples: 3 },
  { ...LIMITS, id: "snapshot-10000-clone", mb: 10_000, samples: 1 },
];
const FLAGS = ["--pool", "0", "--disk-mb", "12000", "--store-gb", "64"];

export async function measureClones(): Promise<Row[]> {
  await using service = await startService(FLAGS);
  const rows: Row[] = [];
  for (const one of CASES) rows.push(...(await measureSnapshots(service, one)));
  return [...rows, await measureForks(service, { id: "fork-clone", where: WHERE })];
}
