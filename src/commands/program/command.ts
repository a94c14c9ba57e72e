/** What a command is, what it is given and what it returns. */

import packageJson from "../../../package.json" with { type: "json" };
import type { Logger, LogLevel } from "../../common/log.ts";
import type { Config } from "../../config.ts";

/** Exit codes: of success, and of sysexits.h. */
export const EXIT_OK = 0;
export const EXIT_UNAVAILABLE = 69;

export interface CommandContext {
  readonly config: Config;
  /** The words after the command's own name. */
  readonly words: readonly string[];
  readonly log: Logger;
}

/** Runs to the end and returns the exit code; a SandboxError becomes one line on stderr. */
export type CommandRun = (context: CommandContext) => Promise<number>;

export interface Command {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  /** Each form of it with its words, as the README lists them; default its name alone. */
  readonly forms?: readonly string[];
  /** How many words each action takes at most; a command without actions takes no words. */
  readonly actions?: Readonly<Record<string, number>>;
  /** Whether it makes or ends containers on this machine. */
  readonly hasEngine: boolean;
  /** Whether it reads or writes the home. */
  readonly hasHome: boolean;
  /** The actions that refuse a home that is not there: they would make it and find nothing in it. */
  readonly needsHome?: readonly string[];
  /** Whether the command tries the machine in a directory of its own where its home is not there. */
  readonly triesHome?: true;
  /** What the command prints, and all that it does, where its home is not there. */
  readonly withoutHome?: string;
  /** Of its log without `--log-level`, default `info`: lines of a log come between those for a person. */
  readonly logLevel?: LogLevel;
  load(): Promise<CommandRun>;
}

/** The version of this program. */
export const VERSION: string = packageJson.version;
