/**
 * What a user is told of settings that do nothing here: memory on disk where no sandbox can have any,
 * and a `--store-gb` that is not the size of the store.
 */

import { isRootless } from "../../common/privilege.ts";
import type { Config } from "../../config.ts";
import type { EngineReport } from "../../engine/engine.ts";
import { findProgram } from "../../engine/host/find-program.ts";
import { gvisorCommand } from "../../engine/host/install-command.ts";
import type { StoreSize } from "../../engine/storage/store-growth.ts";

/** What the level gvisor needs. */
type Lack = "root" | "runsc";

/** Undefined where sandboxes are, or can be asked to be, of the level gvisor. */
export function memoryNote(
  { pauseToDisk, encryptsSnapshots }: Pick<Config, "encryptsSnapshots" | "pauseToDisk">,
  { level }: Pick<EngineReport, "level">,
  findLack: () => Lack | undefined = lackOfMachine,
): string | undefined {
  const lack = level === "gvisor" ? undefined : findLack();
  if (lack === undefined) return undefined;
  const unused = [
    ...(pauseToDisk === undefined ? [] : ["--pause-to-disk"]),
    ...(encryptsSnapshots ? ["--encrypt-snapshots"] : []),
  ];
  if (unused.length === 0) return undefined;
  const fix = lack === "runsc" ? `: ${gvisorCommand()}` : "";
  return `${unused.join(", ")}: not used without ${lack}, memory is never on disk${fix}`;
}

function lackOfMachine(): Lack | undefined {
  if (isRootless()) return "root";
  return findProgram("runsc") === undefined ? "runsc" : undefined;
}

/** Undefined where the store is as large as was asked for, and where the home has none. */
export function storeNote(
  size: StoreSize | undefined,
  wantedGb: number | undefined,
): string | undefined {
  if (size === undefined || wantedGb === undefined) return undefined;
  const { sizeGb, fault } = size;
  const setting = `--store-gb ${wantedGb}`;
  if (fault !== undefined) {
    const hint = fault.hint === undefined ? "" : `: ${fault.hint}`;
    const kept = sizeGb === undefined ? "size" : `${sizeGb} GiB`;
    return `${setting}: the store keeps its ${kept}, because ${fault.message}${hint}`;
  }
  if (sizeGb === undefined || sizeGb <= wantedGb) return undefined;
  return `${setting}: the home has a store of ${sizeGb} GiB, which keeps its size`;
}
