/** What a user is told of settings about memory on disk where no sandbox can have any. */

import { isRootless } from "../common/privilege.ts";
import type { Config } from "../config.ts";
import type { EngineReport } from "../engine/engine.ts";
import { findProgram } from "../engine/host/find-program.ts";
import { gvisorCommand } from "../engine/host/install-command.ts";

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
