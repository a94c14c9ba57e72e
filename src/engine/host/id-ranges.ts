/** A range of host ids for each container, used by no other one on this machine. */

import { randomInt } from "node:crypto";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { ID_RANGE } from "../../common/privilege.ts";
import { isRootless, NAMESPACE_ID_BASE } from "../../common/privilege.ts";
import { claimsOf, releaseClaim, RUN_DIRECTORY, tryClaim } from "./claims.ts";

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
  return (await slotsOf(directory)).includes(slot);
}

/** The numbers of the ranges that the container of this folder holds, below 30,000 each. */
export async function slotsOf(directory: string): Promise<number[]> {
  return claimsOf(CLAIMS, directory);
}

/** The number of a range by its first id. */
export function slotOf(idBase: number): number {
  return (idBase - FIRST_BASE) / ID_RANGE;
}

/** Gives back every range that the container of this folder holds. Idempotent. */
export async function releaseIds(directory: string): Promise<void> {
  for (const slot of await slotsOf(directory)) await releaseClaim(CLAIMS, slot);
}
