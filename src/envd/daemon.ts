/** The parts that every operation of the daemon shares. */

import { createGate, type Gate } from "../common/concurrency.ts";
import { createTurns, type Turns } from "../common/turns.ts";
import { createAttributes, type Attributes } from "./attributes.ts";
import { findBundledProgram } from "./bundled-program.ts";
import { Staging } from "./files/staging.ts";
import { createIdleMemory, type IdleMemory } from "./idle-memory.ts";
import { createDaemonLog, type DaemonLog } from "./log.ts";
import { findPerlPrograms, type PerlPrograms } from "./perl-programs.ts";
import { createProcessTable, type ProcessTable } from "./process/running.ts";
import type { SilenceOptions } from "./process/silence.ts";
import { createSpawner, type Spawner } from "./process/spawner.ts";
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
  /** Uploads that replace a known content, by the file. */
  readonly replacements: Turns;
  /** Listings of directories, each of which may hold a part of the heap. */
  readonly listings: Gate;
  /** Where programs look for their sandbox; undefined where the daemon shares its world. */
  readonly identityDirectory: string | undefined;
  /** What makes the system calls that Node lacks. */
  readonly perl: PerlPrograms;
  /** Of processes without a terminal. */
  readonly spawner: Spawner;
  /** When a program that starts others counts as hung. */
  readonly silence: SilenceOptions;
}

const MAX_LISTINGS = 2;
const IDENTITY_DIRECTORY = "/run/e2b";

/**
 * A daemon that knows nothing of its sandbox yet. `directory` is where its own files lie;
 * `silence` tells when all programs are stopped.
 */
export function createDaemon(directory: string, silence: SilenceOptions = {}): Daemon {
  const log = createDaemonLog();
  const accounts = createAccountReader({ passwd: "/etc/passwd", group: "/etc/group" });
  const perl = findPerlPrograms(directory);
  const attributes = createAttributes(perl.attributes);
  const inotify = createInotify(perl.inotify);
  const isAlone = findBundledProgram(directory, "perl") !== undefined;
  return {
    settings: createSettings(),
    rest: createIdleMemory(),
    accounts,
    log,
    processes: createProcessTable(log),
    staging: new Staging(),
    replacements: createTurns(),
    listings: createGate(MAX_LISTINGS),
    watchers: createWatcherRegistry({ accounts, attributes, inotify, log }),
    identityDirectory: isAlone ? IDENTITY_DIRECTORY : undefined,
    perl,
    spawner: createSpawner(perl.spawner, silence),
    silence,
    attributes,
  };
}
