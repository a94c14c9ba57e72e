/** Removes spools that are too old or too many, and the leases of dead owners. */

import { rmdir } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../common/clean-up.ts";
import { isCode } from "../common/errors.ts";
import { removeTree } from "../common/remove-tree.ts";
import { createAges, type AgeOf, type SpoolClock } from "./ages.ts";
import { createSurvey, listFolder, listSandboxes, sandboxFolder, type Entry } from "./folders.ts";
import { isLeased, leaseOwner, removeLease } from "./lease.ts";

/** Each costs a folder and two files at least. */
const MAX_SPOOLS = 4_096;
/** How long a spool is kept after its end, or after the death of its owner. */
const RETENTION_MS = 15 * 60_000;

/** Clears the spools of a whole home; returns those that were removed. */
export async function collectHome(
  home: string,
  clock: SpoolClock,
  tell: TellFailure,
): Promise<string[]> {
  const removed: string[] = [];
  const remove = async (scope: string) => {
    const root = join(home, scope);
    const entries = await createSurvey(root)();
    const ageOf = createAges(clock).look();
    removed.push(...(await collectSpools(root, { entries, ageOf }, tell)));
  };
  await cleanUp({ kind: "output", names: await listFolder(home), remove }, tell);
  return removed;
}

interface Spools {
  readonly entries: readonly Entry[];
  readonly ageOf: AgeOf;
  /** Ends it early: the next one does the rest. */
  readonly signal?: AbortSignal;
}

/** Clears one folder of spools; returns those that were removed. */
export async function collectSpools(
  root: string,
  { entries, ageOf, signal }: Spools,
  tell: TellFailure,
): Promise<string[]> {
  const expired = await findExpired(root, entries, ageOf);
  const labels = new Map(
    expired.map(({ place }) => [place.folder, `${place.sandboxId}/${place.name}`]),
  );
  const removed: string[] = [];
  const remove = async (folder: string) => {
    if (signal?.aborted === true) return;
    await removeTree(folder);
    removed.push(labels.get(folder) ?? folder);
  };
  await cleanUp({ kind: "output", names: [...labels.keys()], remove }, tell);
  if (signal?.aborted === true) return removed;
  await removeUnused(root);
  return removed;
}

/** Spools that are too old, and the oldest that ended when there are too many. */
async function findExpired(
  root: string,
  entries: readonly Entry[],
  ageOf: AgeOf,
): Promise<Entry[]> {
  const byAge = entries.toSorted((left, right) => left.changedAtMs - right.changedAtMs);
  const expired: Entry[] = [];
  for (const entry of byAge) {
    const ageMs = ageOf(entry);
    const isSurplus = entries.length - expired.length > MAX_SPOOLS && entry.endedAtMs !== undefined;
    if (isSurplus || (await hasExpired(root, entry, ageMs))) expired.push(entry);
  }
  return expired;
}

async function hasExpired(root: string, entry: Entry, ageMs: number): Promise<boolean> {
  const { endedAtMs, place } = entry;
  return ageMs > RETENTION_MS && (endedAtMs !== undefined || !(await isLeased(root, place.owner)));
}

/** Removes folders of sandboxes without a spool, and the leases of dead owners. */
async function removeUnused(root: string): Promise<void> {
  for (const sandboxId of await listSandboxes(root)) {
    await removeEmpty(sandboxFolder(root, sandboxId));
  }
  for (const name of await listFolder(root)) {
    const owner = leaseOwner(name);
    if (owner !== undefined && !(await isLeased(root, owner))) await removeLease(root, owner);
  }
}

async function removeEmpty(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch (error) {
    if (!isCode(error, ...EXPECTED_CODES)) throw error;
  }
}

/** Not empty, or removed by another server. */
const EXPECTED_CODES: ReadonlySet<string> = new Set(["ENOTEMPTY", "EEXIST", "ENOENT"]);
