/** The user ids of a halted container, taken by another one, as may be after a restart of the machine. */

import { join } from "node:path";
import {
  claimsOf,
  releaseClaim,
  RUN_DIRECTORY,
  slotsOf,
  tryClaim,
} from "../../../src/engine/host/id-ranges.ts";

const CLAIMS = join(RUN_DIRECTORY, "ids");

/** Takes the ids of the container of this folder, and gives them back in the end. */
export async function takeIds(directory: string): Promise<AsyncDisposable> {
  const owner = `${directory}.taken`;
  for (const slot of await slotsOf(directory)) {
    await releaseClaim(CLAIMS, slot);
    // Where a container of somebody else was faster it has them.
    await tryClaim(CLAIMS, slot, owner);
  }
  return {
    async [Symbol.asyncDispose]() {
      for (const slot of await claimsOf(CLAIMS, owner)) await releaseClaim(CLAIMS, slot);
    },
  };
}
