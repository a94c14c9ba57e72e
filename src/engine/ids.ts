/**
 * A range of host ids for each container, used by no other one on this machine. A claim is a
 * symbolic link that names the container's folder: one system call that succeeds for one caller.
 */

import { randomInt } from "node:crypto";
import { mkdir, readdir, readlink, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";
import { causeCode, SandboxError } from "../common/errors.ts";
import { ID_RANGE } from "./bundle.ts";

/** What the engine shares between all its processes on this machine; gone after a restart of it. */
export const RUN_DIRECTORY = "/run/sandbox-mcp";

const CLAIMS = join(RUN_DIRECTORY, "ids");
/** Above the ranges that distributions hand out to people's accounts. */
const FIRST_BASE = 0x100000;
/** Keeps every id below 2^31, which some tools need. */
const MAX_SLOTS = 30_000;
const MAX_ATTEMPTS = 1_000;

/** Claims a free range for the container of this folder and returns its first id. */
export async function claimIds(directory: string): Promise<number> {
  await mkdir(CLAIMS, { recursive: true, mode: 0o700 });
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const slot = randomInt(MAX_SLOTS);
    if (await tryClaim(slot, directory)) return FIRST_BASE + slot * ID_RANGE;
  }
  throw new SandboxError("resource_exhausted", "no range of user ids is free", {
    hint: `remove the links in ${CLAIMS} whose folder does not exist`,
  });
}

/** Claims exactly this range again for its folder; false when another one has it by now. */
export async function holdIds(directory: string, idBase: number): Promise<boolean> {
  await mkdir(CLAIMS, { recursive: true, mode: 0o700 });
  const slot = (idBase - FIRST_BASE) / ID_RANGE;
  if (await tryClaim(slot, directory)) return true;
  return (await ownerOf(join(CLAIMS, String(slot)))) === directory;
}

/** Gives back every range that the container of this folder holds. Idempotent. */
export async function releaseIds(directory: string): Promise<void> {
  for (const slot of await listClaims()) {
    const path = join(CLAIMS, slot);
    if ((await ownerOf(path)) === directory) await unlinkIfThere(path);
  }
}

async function tryClaim(slot: number, directory: string): Promise<boolean> {
  try {
    await symlink(directory, join(CLAIMS, String(slot)));
    return true;
  } catch (error) {
    if (causeCode(error) === "EEXIST") return false;
    throw error;
  }
}

async function listClaims(): Promise<string[]> {
  try {
    return await readdir(CLAIMS);
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

async function unlinkIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (causeCode(error) !== "ENOENT") throw error;
  }
}
