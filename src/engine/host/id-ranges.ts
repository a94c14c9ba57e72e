/**
 * Numbers that one owner holds on this machine, above all the range of host ids of each container. A
 * claim is a symbolic link that names the owner's folder: one system call that succeeds for one
 * caller.
 */

import { randomInt } from "node:crypto";
import { accessSync, constants, mkdirSync } from "node:fs";
import { mkdir, readlink, rename, symlink, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isCode, SandboxError } from "../../common/errors.ts";
import { draftOf, ifThere, isThere, listFolder } from "../../common/files.ts";
import { ID_RANGE, isRootless, NAMESPACE_ID_BASE } from "../../common/privilege.ts";

/** What the engine shares between all its processes on this machine; gone after a restart of it. */
export const RUN_DIRECTORY = "/run/sandbox-mcp";

/** Whether that can be written to; an ordinary user's service needs none. */
export function hasRunDirectory(): boolean {
  if (isRootless()) return true;
  try {
    mkdirSync(RUN_DIRECTORY, { recursive: true, mode: 0o700 });
    accessSync(RUN_DIRECTORY, constants.W_OK);
    return true;
  } catch {
    // The file system is read-only or full, or there is a file on the way.
    return false;
  }
}

const CLAIMS = join(RUN_DIRECTORY, "ids");
/** Above the ranges that distributions hand out to people's accounts. */
const FIRST_BASE = 0x100000;
/** Keeps every id below 2^31, which some tools need. */
const MAX_SLOTS = 30_000;
const MAX_ATTEMPTS = 1_000;

/**
 * Claims a free range for the container of this folder and returns its first id. A namespace of
 * our own has one range, which all its containers share.
 */
export async function claimIds(directory: string): Promise<number> {
  if (isRootless()) return NAMESPACE_ID_BASE;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const slot = randomInt(MAX_SLOTS);
    if (await tryClaim(CLAIMS, slot, directory)) return FIRST_BASE + slot * ID_RANGE;
  }
  throw new SandboxError("resource_exhausted", "no range of user ids is free", {
    hint: `remove the links in ${CLAIMS} whose folder does not exist`,
  });
}

/** Claims exactly this range again for its folder; false when another one has it by now. */
export async function holdIds(directory: string, idBase: number): Promise<boolean> {
  if (isRootless()) return true;
  const slot = slotOf(idBase);
  if (await tryClaim(CLAIMS, slot, directory)) return true;
  const owner = await ifThere(readlink(join(CLAIMS, String(slot))));
  if (owner === directory) return true;
  // The home was moved: names of folders are unique, and this one is at its old place no more.
  const isMoved = owner !== undefined && basename(owner) === basename(directory);
  if (!isMoved || (await isThere(owner))) return false;
  await releaseClaim(CLAIMS, slot);
  return tryClaim(CLAIMS, slot, directory);
}

/** The numbers of the ranges of all containers in a folder, each with the name of its own folder. */
export async function slotsIn(parent: string): Promise<ReadonlyMap<number, string>> {
  const inside = [...(await ownersOf(CLAIMS))].filter(([, owner]) => dirname(owner) === parent);
  return new Map(inside.map(([slot, owner]) => [slot, basename(owner)]));
}

/**
 * The numbers of the ranges that the container of this folder holds, below 30,000 each; also those that
 * it had before its home was moved: names of folders are unique, and this one is there no more.
 */
export async function slotsOf(directory: string): Promise<number[]> {
  const slots: number[] = [];
  for (const [slot, owner] of await ownersOf(CLAIMS)) {
    const isMoved = owner !== directory && basename(owner) === basename(directory);
    if (owner === directory || (isMoved && !(await isThere(owner)))) slots.push(slot);
  }
  return slots;
}

export function slotOf(idBase: number): number {
  return (idBase - FIRST_BASE) / ID_RANGE;
}

/** Gives back every range that the container of this folder holds. Idempotent. */
export async function releaseIds(directory: string): Promise<void> {
  for (const slot of await slotsOf(directory)) await releaseClaim(CLAIMS, slot);
}

/** Claims a number for the owner; false when it is held. */
export async function tryClaim(folder: string, slot: number, owner: string): Promise<boolean> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    await symlink(owner, join(folder, String(slot)));
    return true;
  } catch (error) {
    if (isCode(error, "EEXIST")) return false;
    throw error;
  }
}

export async function claimsOf(folder: string, owner: string): Promise<number[]> {
  const all = [...(await ownersOf(folder))];
  return all.filter(([, other]) => other === owner).map(([slot]) => slot);
}

/** Each number that is held, and the folder of its owner. */
export async function ownersOf(folder: string): Promise<ReadonlyMap<number, string>> {
  const slots = (await listClaims(folder)).filter((name) => /^[0-9]{1,9}$/.test(name));
  const owners = await Promise.all(
    slots.map(async (slot) => [Number(slot), await ifThere(readlink(join(folder, slot)))] as const),
  );
  return new Map(owners.flatMap(([slot, owner]) => (owner === undefined ? [] : [[slot, owner]])));
}

/** Gives a number that is held to another owner; it is free at no moment. */
export async function passClaim(folder: string, slot: number, owner: string): Promise<void> {
  const path = join(folder, String(slot));
  await ifThere(unlink(draftOf(path)));
  await symlink(owner, draftOf(path));
  await rename(draftOf(path), path);
}

/** Gives a number back. Idempotent. */
export async function releaseClaim(folder: string, slot: number): Promise<void> {
  await ifThere(unlink(join(folder, String(slot))));
}

async function listClaims(folder: string): Promise<string[]> {
  // In a namespace of our own nothing of the machine is ours to claim.
  return isRootless() ? [] : listFolder(folder);
}
