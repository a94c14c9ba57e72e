/** What a runtime can do with the memory of programs: save it, and bring it back. */

import { basename } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import type { ContainerSpec } from "../engine.ts";
import { openMemory } from "../gvisor/launch-sentry.ts";
import { NOT_RESTORABLE, notRestorable } from "../gvisor/memory-image.ts";
import { findSealFault } from "../gvisor/take-image.ts";
import { findProgram } from "../host/find-program.ts";
import type { MemorySaver } from "./container-copies.ts";
import type { LaunchContext, RuntimeChoice } from "./launch-context.ts";

/** The runtime with a kernel of its own. */
export const SENTRY = "runsc";

const SHARES_KERNEL = "the sandbox shares the kernel of its machine";
const BRINGS_NONE_BACK = "this runsc does not bring memory back";

/** What saves the memory of the containers of a runtime; else why nothing does. */
export function memoryOf({
  runtime,
  flags,
  carriesMemory,
  keys,
  daemon,
}: RuntimeChoice & Pick<LaunchContext, "keys" | "daemon">): MemorySaver {
  if (flags === undefined) return SHARES_KERNEL;
  if (carriesMemory !== true) return BRINGS_NONE_BACK;
  return findSealFault(keys) ?? { runtime, flags, keys, daemon: basename(daemon) };
}

/** @throws SandboxError failed_precondition where memory is asked for and not brought back. */
export function requireMemory(
  { flags, carriesMemory }: Pick<RuntimeChoice, "flags" | "carriesMemory">,
  { memory }: Pick<ContainerSpec, "memory">,
): void {
  if (memory === undefined) return;
  if (flags === undefined) throw notRestorable(SHARES_KERNEL);
  if (carriesMemory !== true) throw notRestorable(BRINGS_NONE_BACK);
}

/**
 * Why the memory of a halted container in a folder does not come back, found without a start;
 * undefined where it may.
 */
export async function findRestoreFault(
  context: Pick<LaunchContext, "runtime" | "flags" | "carriesMemory" | "daemon" | "keys">,
  memory: string,
  find = findProgram,
): Promise<string | undefined> {
  try {
    if (context.flags === undefined) {
      // One that was found without its runtime looks for that again at its next boot.
      if (find(SENTRY) === undefined) throw notRestorable(`no ${SENTRY} is installed`);
    } else {
      requireMemory(context, { memory });
      await openMemory(context, memory);
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof SandboxError) || error.word !== NOT_RESTORABLE) throw error;
    return error.message;
  }
}
