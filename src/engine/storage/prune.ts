/** What the engine keeps in a home for itself, and how it is told from what is no longer needed. */

import { randomBytes } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { isFarAway } from "../../common/clock.ts";
import { listFolder, readIfThere } from "../../common/files.ts";
import { discardFolder } from "../host/drafts.ts";
import { tryLock } from "../host/lock.ts";
import { readRecord } from "../oci/container-record.ts";

/** Where the daemons' folders are in a home. */
export const DAEMONS = "daemon";

/** The container of a probe is named for the process that tries the machine. */
const PROBE_PATTERN = /^probe([0-9]+)x[0-9a-f]{16}$/;

/** A process that makes a folder, or starts a container with it, is done by then. */
const MIN_AGE_MS = 60 * 60_000;

/** An id for the container of a probe by this process. */
export function newProbeId(): string {
  return `probe${process.pid}x${randomBytes(8).toString("hex")}`;
}

/**
 * Removes the containers that probes of dead processes left in this home. Returns their names. A process
 * in another container that has the home is known by the lock alone: its number means nothing here.
 */
export async function pruneProbes(
  home: string,
  remove: (id: string) => Promise<void>,
  tell: TellFailure,
): Promise<string[]> {
  const lock = await tryLock(home, "probe");
  if (lock === undefined) return [];
  try {
    return await cleanUp({ kind: "tool", names: await findDeadProbes(home), remove }, tell);
  } finally {
    await lock[Symbol.asyncDispose]();
  }
}

async function findDeadProbes(home: string): Promise<string[]> {
  const dead: string[] = [];
  for (const name of await readdir(home)) {
    const pid = PROBE_PATTERN.exec(name)?.[1];
    if (pid === undefined) continue;
    if ((await readIfThere(`/proc/${pid}/stat`)) === undefined) dead.push(name);
  }
  return dead;
}

/**
 * Removes the daemons that neither a container in one of these folders nor the next one runs, and
 * those that were never finished. Returns their names.
 */
export async function pruneDaemons(
  current: string,
  directories: readonly string[],
  tell: TellFailure,
): Promise<string[]> {
  const parent = join(current, "..");
  const kept = new Set([basename(current)]);
  for (const directory of directories) {
    const record = await readRecord(directory);
    // A start is under way: it uses the current one, or another program's.
    if (record === undefined) continue;
    // It runs one, and which one is not known.
    if (record.daemon === "") return [];
    kept.add(record.daemon);
  }
  const unused: string[] = [];
  for (const name of await listFolder(parent)) {
    if (!kept.has(name) && (await isOld(join(parent, name)))) unused.push(name);
  }
  const remove = async (name: string) => discardFolder(join(parent, name));
  return cleanUp({ kind: "tool", names: unused, remove }, tell);
}

/** One that another clean-up took meanwhile is not old. */
async function isOld(path: string): Promise<boolean> {
  const entry = await stat(path).catch(() => undefined);
  return entry !== undefined && isFarAway(entry.mtimeMs, MIN_AGE_MS);
}
