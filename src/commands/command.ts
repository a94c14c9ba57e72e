/** What every command is handed, and what it gives back. */

import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";

export interface CommandContext {
  readonly config: Config;
  /** The words after the command's own name. */
  readonly words: readonly string[];
  readonly log: Logger;
}

/** Runs to the end and returns the exit code; a SandboxError becomes one line on stderr. */
export type CommandRun = (context: CommandContext) => Promise<number>;
