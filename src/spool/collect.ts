/** What goes by itself: spools that are too old or too many, and what dead owners left. */

import { rmdir } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../common/clean-up.ts";
import { causeCode } from "../common/errors.ts";
import { removeTree } from "../common/remove-tree.ts";
import { listFolder, listSandboxes, sandboxFolder } from "./folders.ts";
import { isLeased, leaseOwner, removeLease } from "./lease.ts";
import { listEntries, type Entry } from "./survey.ts";

/** Each costs a folder and two files at least. */
const MAX_SPOOLS = 4_096;
/** How long a spool is kept beyond its end, or beyond the end of its owner. */
const RETENTION_MS = 15 * 60_000;

/** Clears the spools of a whole home; says which spools went. */
export async function collectHome(
  home: string,
  nowMs: number,
  tell: TellFailure,
): Promise<string[]> {
  const removed: string[] = [];
  const remove = async (scope: string) => {
    removed.push(...(await collectSpools(join(home, scope), nowMs, tell)));
  };
  await cleanUp({ kind: "output", names: await listFolder(home), remove }, tell);
  return removed;
}

/** Clears one folder of spools; says which spools went. */
export async function collectSpools(
  root: string,
  nowMs: number,
  tell: TellFailure,
): Promise<string[]> {
  const over = await findOver(root, await listEntries(root), nowMs);
  const labels = new Map(
    over.map(({ place }) => [place.folder, `${place.sandboxId}/${place.name}`]),
  );
  const gone = await cleanUp(
    { kind: "output", names: [...labels.keys()], remove: removeTree },
    tell,
  );
  await removeRemains(root);
  return gone.map((folder) => labels.get(folder) ?? folder);
}

/** What is too old, and of the others that ended the oldest when they are too many. */
async function findOver(root: string, entries: readonly Entry[], nowMs: number): Promise<Entry[]> {
  const byAge = entries.toSorted((left, right) => left.changedAtMs - right.changedAtMs);
  const over: Entry[] = [];
  for (const entry of byAge) {
    const isSurplus = entries.length - over.length > MAX_SPOOLS && entry.endedAtMs !== undefined;
    if (isSurplus || (await isOver(root, entry, nowMs))) over.push(entry);
  }
  return over;
}

/** A clock that was set back must not keep anything for ever: only the distance counts. */
async function isOver(root: string, entry: Entry, nowMs: number): Promise<boolean> {
  const { endedAtMs, changedAtMs, place } = entry;
  const isOld = Math.abs(nowMs - (endedAtMs ?? changedAtMs)) > RETENTION_MS;
  return isOld && (endedAtMs !== undefined || !(await isLeased(root, place.owner)));
}

/** Removes folders of sandboxes without a spool, and the leases of the dead. */
async function removeRemains(root: string): Promise<void> {
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
    if (!EXPECTED_CODES.has(causeCode(error) ?? "")) throw error;
  }
}

/** Not empty, or gone by another's hand. */
const EXPECTED_CODES: ReadonlySet<string> = new Set(["ENOTEMPTY", "EEXIST", "ENOENT"]);
