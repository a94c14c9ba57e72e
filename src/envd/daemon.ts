/** The parts that every operation of the daemon shares. */

import { join } from "node:path";
import { createAttributes, type Attributes } from "./attributes.ts";
import { findBundledProgram, type Command } from "./bundled-program.ts";
import { Staging } from "./files/staging.ts";
import { createIdleMemory, type IdleMemory } from "./idle-memory.ts";
import { createDaemonLog, type DaemonLog } from "./log.ts";
import { createPipeSource, type PipeSource } from "./process/pipes.ts";
import { createProcessTable, type ProcessTable } from "./process/running.ts";
import { createSettings, type SettingsHolder } from "./settings.ts";
import { createAccountReader, type AccountReader } from "./user.ts";
import { createInotify } from "./watch/inotify.ts";
import { createWatcherRegistry, type WatcherRegistry } from "./watch/watchers.ts";

export interface Daemon {
  readonly settings: SettingsHolder;
  readonly accounts: AccountReader;
  readonly log: DaemonLog;
  readonly processes: ProcessTable;
  readonly rest: IdleMemory;
  readonly watchers: WatcherRegistry;
  readonly attributes: Attributes;
  readonly staging: Staging;
  /** Where programs look for their sandbox; undefined where the daemon shares its world. */
  readonly identityDirectory: string | undefined;
  /** The program that changes the identity of a process; undefined where none is carried. */
  readonly helper: Command | undefined;
  /** Runs what needs system calls that Node lacks. */
  readonly perl: Command;
  /** Of processes without a terminal. */
  readonly pipes: PipeSource;
}

/** Lies beside the daemon's own program. */
const INOTIFY_PROGRAM = "inotify.pl";
const IDENTITY_DIRECTORY = "/run/e2b";

/** A daemon that knows nothing of its sandbox yet. `directory` is where its own files lie. */
export function createDaemon(directory: string): Daemon {
  const log = createDaemonLog();
  const accounts = createAccountReader({ passwd: "/etc/passwd", group: "/etc/group" });
  const perl = findBundledProgram(directory, "perl") ?? ["perl"];
  const attributes = createAttributes(perl);
  const inotify = createInotify(perl, join(directory, INOTIFY_PROGRAM));
  const helper = findBundledProgram(directory, "setpriv");
  return {
    settings: createSettings(),
    rest: createIdleMemory(),
    accounts,
    log,
    processes: createProcessTable(log),
    staging: new Staging(),
    watchers: createWatcherRegistry({ accounts, attributes, inotify, log }),
    helper,
    identityDirectory: helper === undefined ? undefined : IDENTITY_DIRECTORY,
    perl,
    pipes: createPipeSource(perl),
    attributes,
  };
}
