/** The store on SQLite: two files, one durable for state and one fast for logs. */

import { closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { openBuildLines, openTemplateBuilds } from "./build-tables.ts";
import { watchFile } from "./database-file.ts";
import { isOlderFile, logPathOf, newerVersionError } from "./file-version.ts";
import { openLogs } from "./log-tables.ts";
import { LOG_STEPS, STATE_STEPS } from "./schema.sql.ts";
import { openSnapshots } from "./snapshot-table.ts";
import {
  openBuilds,
  openCreations,
  openKeys,
  openSandboxes,
  openTemplates,
  openValues,
  openVolumes,
} from "./state-tables.ts";
import {
  BUSY_TIMEOUT_MS,
  hintFor,
  inTransaction,
  isBusy,
  isDamage,
  setBusyTimeout,
  translate,
} from "./statement.ts";
import type { Store } from "./store.ts";

const MEMORY = ":memory:";

const BUSY_PAUSE_MS = 10;

/** The last step takes 3 s of processor time for 50,000 builds, and much longer on a busy machine. */
const MAX_UPGRADE_WAIT_MS = 60_000;
const UPGRADE_PAUSE_MS = 100;

/**
 * What stays of a write-ahead log that was written back. It is as large as the largest transaction, or
 * as what was written while another program read the database: a backup can take hours.
 */
const MAX_IDLE_WAL_BYTES = 16 * 1024 * 1024;

/**
 * Opens or creates the database at `path` and its log file beside it; ":memory:" keeps both in
 * memory.
 * @throws SandboxError failed_precondition when a newer program has written it, unavailable when
 * it cannot be opened.
 */
export function openStore(options: { readonly path: string }): Store {
  using stack = new DisposableStack();
  const open = (path: string, wanted: DatabaseOptions) =>
    stack.adopt(openDatabase(path, wanted), (database) => database.close());
  const state = open(options.path, STATE_OPTIONS);
  const logPath = options.path === MEMORY ? MEMORY : logPathOf(options.path);
  const logs = open(logPath, LOG_OPTIONS);
  const owned = stack.move();
  return {
    sandboxes: openSandboxes(state),
    templates: openTemplates(state),
    snapshots: openSnapshots(state),
    builds: openBuilds(state),
    templateBuilds: openTemplateBuilds(state),
    buildLines: openBuildLines(logs),
    volumes: openVolumes(state),
    creations: openCreations(state),
    keys: openKeys(state),
    facts: openValues(state),
    logs: openLogs(logs),
    transaction: (work) => inTransaction(state, work),
    [Symbol.dispose]: () => owned.dispose(),
  };
}

const LOGS_DAMAGED =
  "it has logs alone: restore it from a backup, or move it away with its -wal and -shm for an empty one";

interface DatabaseOptions {
  readonly synchronous: "FULL" | "NORMAL";
  readonly steps: readonly string[];
  /** What to do then, where it is not to restore it. */
  readonly ifDamaged?: string;
}

const STATE_OPTIONS: DatabaseOptions = { synchronous: "FULL", steps: STATE_STEPS };
const LOG_OPTIONS: DatabaseOptions = {
  synchronous: "NORMAL",
  steps: LOG_STEPS,
  ifDamaged: LOGS_DAMAGED,
};

/** Made before SQLite makes it: its other files take over the mode. */
function makePrivate(path: string): void {
  closeSync(openSync(path, "a", 0o600));
}

function openDatabase(path: string, options: DatabaseOptions): DatabaseSync {
  const database = connect(path, options);
  try {
    takeSteps(database, path, options.steps);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Opens a file in whatever form it has. */
function connect(path: string, options: DatabaseOptions): DatabaseSync {
  let database: DatabaseSync;
  try {
    if (path !== MEMORY) makePrivate(path);
    database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
    enterWal(database);
    database.exec(
      `PRAGMA synchronous = ${options.synchronous};
       PRAGMA journal_size_limit = ${MAX_IDLE_WAL_BYTES};
       PRAGMA foreign_keys = ON;
       PRAGMA trusted_schema = OFF;`,
    );
  } catch (error) {
    throw new SandboxError("unavailable", `database ${path} cannot be opened`, {
      cause: error,
      hint:
        (isDamage(error) ? options.ifDamaged : undefined) ??
        hintFor(error) ??
        "check that the home is on a local file system, writable and not full",
    });
  }
  if (path !== MEMORY) watchFile(database, path);
  return database;
}

export interface UpgradeOptions {
  readonly path: string;
  /** Called once, before the first wait. */
  readonly onWait: () => void;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  readonly maxWaitMs?: number;
}

/**
 * Brings the files of an older version to the present form. While another process does so, or writes,
 * it is waited for with the event loop free, unlike in `openStore`.
 * @throws SandboxError as `openStore`; unavailable when the other process takes too long; canceled.
 */
export async function upgradeStore(options: UpgradeOptions): Promise<void> {
  const { path } = options;
  await upgradeFile(path, STATE_OPTIONS, options);
  await upgradeFile(logPathOf(path), LOG_OPTIONS, options);
}

async function upgradeFile(
  path: string,
  wanted: DatabaseOptions,
  { onWait, signal, maxWaitMs = MAX_UPGRADE_WAIT_MS }: UpgradeOptions,
): Promise<void> {
  if (!isOlderFile(path, wanted.steps.length)) return;
  using database = connect(path, wanted);
  setBusyTimeout(database, BUSY_PAUSE_MS);
  const untilMs = performance.now() + maxWaitMs;
  for (let attempt = 1; ; attempt += 1) {
    try {
      takeSteps(database, path, wanted.steps);
      return;
    } catch (error) {
      if (!(error instanceof SandboxError) || !isBusy(error.cause)) throw error;
      if (performance.now() > untilMs) throw notUpgraded(path, error);
    }
    if (signal?.aborted) {
      throw new SandboxError("canceled", `no longer waiting for the upgrade of database ${path}`);
    }
    if (attempt === 1) onWait();
    await sleep(UPGRADE_PAUSE_MS);
  }
}

function notUpgraded(path: string, cause: SandboxError): SandboxError {
  return new SandboxError("unavailable", `database ${path} is written to by another process`, {
    cause,
    hint: "that process upgrades it, or keeps it from being upgraded: wait for its end, then start again",
  });
}

/**
 * Switches a new file to a write-ahead log. That alone does not wait for another process: of two
 * that switch at once SQLite fails one with SQLITE_BUSY, whatever its timeout.
 */
function enterWal(database: DatabaseSync): void {
  const untilMs = performance.now() + BUSY_TIMEOUT_MS;
  // It never changes, so that a wait for it is a synchronous sleep.
  const cell = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  for (;;) {
    try {
      database.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > untilMs) throw error;
      Atomics.wait(cell, 0, 0, BUSY_PAUSE_MS);
    }
  }
}

/** Takes the steps that are still missing, all in one transaction. */
function takeSteps(database: DatabaseSync, path: string, steps: readonly string[]): void {
  if (readVersion(database) === steps.length) return;
  inTransaction(database, () => {
    // Another process may have taken them while this one waited for the right to write.
    const version = readVersion(database);
    if (version > steps.length) throw newerVersionError(path, version);
    try {
      translate(() => {
        for (const step of steps.slice(version)) database.exec(step);
        database.exec(`PRAGMA user_version = ${steps.length}`);
      });
    } catch (error) {
      if (!hasErrorCode(error, "internal")) throw error;
      // Such as a row that is no record: the older version never read it.
      const change = `of version ${version} could not be changed to version ${steps.length}`;
      throw new SandboxError("failed_precondition", `database ${path} ${change}`, {
        cause: error.cause,
        hint: "it is as before: use the sandbox-mcp that wrote it, or restore it from a backup",
      });
    }
  });
}

function readVersion(database: DatabaseSync): number {
  const row = translate(() => database.prepare("PRAGMA user_version").get());
  return Number(row?.["user_version"]);
}
