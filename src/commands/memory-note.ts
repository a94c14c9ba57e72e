/** What a user is told of settings about memory on disk where no sandbox can have any. */

import type { Config } from "../config.ts";
import type { EngineReport } from "../engine/engine.ts";
import { findProgram } from "../engine/host/find-program.ts";
import { gvisorCommand } from "../engine/host/install-command.ts";

/** Undefined where sandboxes are, or can be asked to be, of the level gvisor. */
export function memoryNote(
  { pauseToDisk, encryptsSnapshots }: Pick<Config, "encryptsSnapshots" | "pauseToDisk">,
  { level }: Pick<EngineReport, "level">,
  find: (program: string) => string | undefined = findProgram,
): string | undefined {
  if (level === "gvisor" || find("runsc") !== undefined) return undefined;
  const unused = [
    ...(pauseToDisk === undefined ? [] : ["--pause-to-disk"]),
    ...(encryptsSnapshots ? ["--encrypt-snapshots"] : []),
  ];
  if (unused.length === 0) return undefined;
  return `${unused.join(", ")}: not used without runsc, memory is never on disk: ${gvisorCommand()}`;
}
