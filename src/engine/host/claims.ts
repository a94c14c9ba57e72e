/**
 * Numbers that one owner holds on this machine. A claim is a symbolic link that names the owner's
 * folder: one system call that succeeds for one caller.
 */

import { mkdir, readdir, readlink, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";
import { causeCode } from "../../common/errors.ts";
import { isRootless } from "../../common/privilege.ts";

/** What the engine shares between all its processes on this machine; gone after a restart of it. */
export const RUN_DIRECTORY = "/run/sandbox-mcp";

/** Claims a number for the owner; false when somebody holds it. */
export async function tryClaim(folder: string, slot: number, owner: string): Promise<boolean> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    await symlink(owner, join(folder, String(slot)));
    return true;
  } catch (error) {
    if (causeCode(error) === "EEXIST") return false;
    throw error;
  }
}

/** The numbers that the owner holds. */
export async function claimsOf(folder: string, owner: string): Promise<number[]> {
  const slots = (await listClaims(folder)).filter((name) => /^[0-9]{1,9}$/.test(name));
  const owners = await Promise.all(slots.map(async (slot) => ownerOf(join(folder, slot))));
  return slots.filter((_slot, index) => owners[index] === owner).map(Number);
}

/** Gives a number back. Idempotent. */
export async function releaseClaim(folder: string, slot: number): Promise<void> {
  try {
    await unlink(join(folder, String(slot)));
  } catch (error) {
    if (causeCode(error) !== "ENOENT") throw error;
  }
}

async function listClaims(folder: string): Promise<string[]> {
  // In a namespace of our own nothing of the machine is ours to claim.
  if (isRootless()) return [];
  try {
    return await readdir(folder);
  } catch (error) {
    if (causeCode(error) === "ENOENT") return [];
    throw error;
  }
}

async function ownerOf(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch (error) {
    if (causeCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
