/** The growth of a store by the start of a service: its named steps, and homes with another size. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { StepName } from "../../../src/common/steps.ts";
import { openFaultHome, type FaultHome } from "./fault-home.ts";

const run = promisify(execFile);

/** What a start passes that makes a store larger. */
export const GROWTH_STEPS: readonly StepName[] = ["store.extended", "store.grown"];

/** Another service of a home that is there already, whose files another object removes. */
export async function openAgain(
  { path }: Pick<FaultHome, "path">,
  flags: readonly string[],
): Promise<FaultHome> {
  const kept = { path, [Symbol.asyncDispose]: async () => undefined };
  return openFaultHome(flags, async () => kept);
}

/** Rejects when the store of a home, which is not mounted, has a fault. */
export async function expectCleanStore({ path }: Pick<FaultHome, "path">): Promise<void> {
  await run("xfs_repair", ["-n", join(path, "store.img")]);
}
