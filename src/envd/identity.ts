/** Files by which programs learn which sandbox they are in, whatever their environment is. */

import { mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { errorText, isCode } from "../common/errors.ts";
import type { DaemonLog } from "./log.ts";

/** Of all that the host sets, these are told as files too, by their names with a leading dot. */
const TOLD = ["E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID"] as const;

const PUBLIC_MODE = 0o644;
const PRIVATE_MODE = 0o600;

export interface Identity {
  /** Absolute; made when it is missing. */
  readonly directory: string;
  readonly variables: ReadonlyMap<string, string>;
  readonly log: DaemonLog;
}

/**
 * Writes the files anew. What stands in the way goes; where that is not enough, the sandbox has
 * spoiled its own folder, and only its log says so.
 */
export async function writeIdentity({ directory, variables, log }: Identity): Promise<void> {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o755 });
    for (const name of TOLD) await tell(join(directory, `.${name}`), variables.get(name) ?? "");
    // For a server that runs before the sandbox is claimed, and for root alone.
    const all = JSON.stringify(Object.fromEntries(variables));
    await tell(join(directory, ".variables.json"), all, PRIVATE_MODE);
  } catch (error) {
    log.write("warn", "identity files not written", { logger: "envd", error: errorText(error) });
  }
}

/**
 * Only as a new file: whatever was left there might lead elsewhere, or wait for a reader. A line is
 * written at once; what is removed may be large, and is not waited for by the whole daemon.
 */
async function tell(path: string, text: string, mode = PUBLIC_MODE): Promise<void> {
  const settings = { flag: "wx", mode };
  try {
    writeFileSync(path, text, settings);
    return;
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
  await rm(path, { recursive: true, force: true });
  writeFileSync(path, text, settings);
}
