/**
 * What a user is told of settings that do nothing here: memory on disk where no sandbox can have any,
 * and a `--store-gb` that makes no store of that size.
 */

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { ifThere } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import type { Config } from "../../config.ts";
import type { EngineReport } from "../../engine/engine.ts";
import { findProgram } from "../../engine/host/find-program.ts";
import { gvisorCommand } from "../../engine/host/install-command.ts";
import { STORE_NAMES } from "../../engine/storage/store-image.ts";

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

const BYTES_PER_GB = 1024 ** 3;

/** Undefined where the home has what was asked for, or needs none because its files share blocks. */
export async function storeNote(
  home: string,
  sizeGb: number | undefined,
): Promise<string | undefined> {
  if (sizeGb === undefined) return undefined;
  const image = await ifThere(stat(join(home, STORE_NAMES.image)));
  const bytes = image?.size ?? sizeGb * BYTES_PER_GB;
  if (bytes === sizeGb * BYTES_PER_GB) return undefined;
  return `--store-gb ${sizeGb}: the home has a store of ${bytes / BYTES_PER_GB} GiB, which keeps its size`;
}
