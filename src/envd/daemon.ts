/** The parts that every operation of the daemon shares. */

import { createWatcherRegistry, type WatcherRegistry } from "./filesystem/watchers.ts";
import { createDaemonLog, type DaemonLog } from "./log.ts";
import { findHelper } from "./process/launch.ts";
import { createProcessTable, type ProcessTable } from "./process/running.ts";
import { createSettings, type SettingsHolder } from "./settings.ts";
import { createAccountReader, type AccountReader } from "./user.ts";

export interface Daemon {
  readonly settings: SettingsHolder;
  readonly accounts: AccountReader;
  readonly log: DaemonLog;
  readonly processes: ProcessTable;
  readonly watchers: WatcherRegistry;
  /** The program that changes the identity of a process; undefined where none is carried. */
  readonly helper: readonly [string, ...string[]] | undefined;
}

/** A daemon that knows nothing of its sandbox yet. `directory` is where its own files lie. */
export function createDaemon(directory: string): Daemon {
  const log = createDaemonLog();
  const accounts = createAccountReader({ passwd: "/etc/passwd", group: "/etc/group" });
  return {
    settings: createSettings(),
    accounts,
    log,
    processes: createProcessTable(log),
    watchers: createWatcherRegistry(accounts),
    helper: findHelper(directory),
  };
}
