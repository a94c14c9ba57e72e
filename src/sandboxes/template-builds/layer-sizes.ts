/** How much disk layers take. A layer never changes, so each is measured once. */

import { runProgram } from "../../engine/host/run-program.ts";

const MAX_KNOWN = 4_096;
/** Of one call of the program, whose output is bounded. */
const MAX_FOLDERS_AT_ONCE = 32;
const MEASURE_TIMEOUT_MS = 5 * 60_000;
/** What cannot be read is left out, as directories of other ids are for an ordinary user. */
const MEASURE = 'cd -- "$0" && du --summarize --block-size=1 -- "$@" 2>/dev/null || :';

/** Bytes on disk of the folders with these names together; one that is not there has none. */
export type LayerSizes = (folders: readonly string[]) => Promise<number>;

export function createLayerSizes(layersDirectory: string): LayerSizes {
  const known = new Map<string, number>();

  async function measure(folders: readonly string[]): Promise<void> {
    const command = ["sh", "-c", MEASURE, layersDirectory, ...folders] as const;
    const said = await runProgram(command, { timeoutMs: MEASURE_TIMEOUT_MS });
    for (const [, bytes, folder = ""] of said.matchAll(/^([0-9]{1,15})\t(.+)$/gm)) {
      known.set(folder, Number(bytes));
    }
  }

  return async (folders) => {
    if (known.size >= MAX_KNOWN) known.clear();
    const unknown = folders.filter((folder) => !known.has(folder));
    for (let start = 0; start < unknown.length; start += MAX_FOLDERS_AT_ONCE) {
      await measure(unknown.slice(start, start + MAX_FOLDERS_AT_ONCE));
    }
    return folders.reduce((sum, folder) => sum + (known.get(folder) ?? 0), 0);
  };
}
