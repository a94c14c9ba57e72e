/** The folder of an instance, one service of a home: what is where in it, and whether its owner lives. */

import { rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { isFarAway } from "../../common/clock.ts";
import { ifThere, listFolder } from "../../common/files.ts";
import { isListening } from "../../common/listening.ts";
import { tryLock } from "../../engine/host/lock.ts";

/** An instance makes its folder before its socket; one this young may still be starting. */
const MIN_AGE_MS = 60_000;

/** A file in the folder of an instance that leaves its sandboxes at its end. */
const KEEP_MARK = "keep";
/** The name of an instance that was given none. */
const UNNAMED_PATTERN = /^[0-9a-f]{8}$/;

/** Whether an instance was given no name: no later process has its own. */
export function isUnnamed(instance: string): boolean {
  return UNNAMED_PATTERN.test(instance);
}

export function instanceDirectory(home: string, instance: string): string {
  return join(home, "instances", instance);
}

export function containersDirectory(home: string, instance: string): string {
  return join(instanceDirectory(home, instance), "s");
}

/** The sandboxes of an instance that have a folder. */
export function listContainers(home: string, instance: string): Promise<string[]> {
  return listFolder(containersDirectory(home, instance));
}

/** The control socket of an instance; it takes connections as long as the instance runs. */
export function controlSocketPath(home: string, instance: string): string {
  return join(instanceDirectory(home, instance), "door.sock");
}

/**
 * A socket of an instance without a name, which listens until all that the instance has is gone: the
 * control socket takes no connections any more while it stops.
 */
export function lifeSocketPath(home: string, instance: string): string {
  return join(instanceDirectory(home, instance), "life.sock");
}

/** Whether an instance answers at its control socket. */
export function isAlive(home: string, instance: string): Promise<boolean> {
  return isListening(controlSocketPath(home, instance));
}

/** Says whether the sandboxes of this instance stay while it is not there. */
export async function markKept(home: string, instance: string, isKept: boolean): Promise<void> {
  const path = join(instanceDirectory(home, instance), KEEP_MARK);
  if (isKept) await writeFile(path, "");
  else await rm(path, { force: true });
}

/** Whether the instance means to find its sandboxes again. */
export async function hasKeepMark(home: string, instance: string): Promise<boolean> {
  return (await listFolder(instanceDirectory(home, instance))).includes(KEEP_MARK);
}

/** False only for one that is dead: one that is starting, or stops, lives. */
export async function mayLive(home: string, instance: string): Promise<boolean> {
  // First: what it shows listens from the moment when it has its name.
  const names = await listFolder(instanceDirectory(home, instance));
  if ((await isAlive(home, instance)) || (await isStopping(home, instance))) return true;
  // An instance opens its sockets before it makes the folder of its containers, and closes them before
  // that is gone: one that shows any of them is not starting any more.
  const paths = [
    controlSocketPath(home, instance),
    lifeSocketPath(home, instance),
    containersDirectory(home, instance),
  ];
  if (paths.some((path) => names.includes(basename(path)))) return false;
  const entry = await ifThere(stat(instanceDirectory(home, instance)));
  // One that has gone meanwhile needs no clean-up.
  return entry === undefined || !isFarAway(entry.mtimeMs, MIN_AGE_MS);
}

/** One that stops has closed its control socket: a lock, or another socket, tells of its end. */
async function isStopping(home: string, instance: string): Promise<boolean> {
  if (isUnnamed(instance)) return isListening(lifeSocketPath(home, instance));
  const lock = await tryLock(home, "service");
  await lock?.[Symbol.asyncDispose]();
  return lock === undefined;
}
