/** Prepared statements and transactions, whose faults are SandboxErrors. */

import type { DatabaseSync, SQLInputValue, SQLOutputValue } from "node:sqlite";
import { diskFullError, SandboxError } from "../common/errors.ts";
import type { z } from "../common/schema.ts";
import { requireOpenFile } from "./database-file.ts";

export type Row = Readonly<Record<string, SQLOutputValue>>;

export interface Statement {
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  /** How many rows it changed. */
  run(...values: SQLInputValue[]): number;
}

/** What prepares statements of a database; every call of one may throw a SandboxError. */
export function prepareOn(database: DatabaseSync): (sql: string) => Statement {
  return (sql) => {
    const statement = translate(() => database.prepare(sql));
    return {
      get: (...values) => translate(() => statement.get(...values)),
      all: (...values) => translate(() => statement.all(...values)),
      run: (...values) => Number(write(database, () => statement.run(...values)).changes),
    };
  };
}

/** Result codes of SQLite. */
const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;
const PRIMARY_CODE_MASK = 0xff;

interface DatabaseFault {
  readonly message: string;
  readonly hint: string;
}

const DAMAGED: DatabaseFault = {
  message: "database is damaged",
  hint: "restore it from a backup, or use another --home",
};

/** Faults of the file, by result code; an operator can do something about each. */
const FAULTS: Readonly<Record<number, DatabaseFault>> = {
  [SQLITE_BUSY]: {
    message: "database is busy",
    hint: "another program has locked it: end that program, then repeat the request",
  },
  8: { message: "database is read-only", hint: "make the home writable" },
  10: {
    message: "database cannot be read or written",
    hint: "check that the disk of the home works and is not full",
  },
  11: DAMAGED,
  14: {
    message: "database cannot be opened",
    hint: "check that the home is on a local file system, writable and not full",
  },
  26: DAMAGED,
};

/** @throws SandboxError resource_exhausted for a full disk, unavailable for its file, internal. */
export function translate<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    const code = primaryCode(error);
    if (code === SQLITE_FULL) throw diskFullError("database", error);
    const fault = code === undefined ? undefined : FAULTS[code];
    if (fault === undefined)
      throw new SandboxError("internal", "database failed", { cause: error });
    throw new SandboxError("unavailable", fault.message, { cause: error, hint: fault.hint });
  }
}

/**
 * The record that a row holds as JSON.
 * @throws SandboxError unavailable for one that this version cannot read.
 */
export function toRecord<T>(schema: z.ZodType<T>, row: Row): T;
export function toRecord<T>(schema: z.ZodType<T>, row: Row | undefined): T | undefined;
export function toRecord<T>(schema: z.ZodType<T>, row: Row | undefined): T | undefined {
  if (row === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(String(row["record"])));
  } catch (error) {
    throw new SandboxError("unavailable", "database has a row that cannot be read", {
      cause: error,
      hint: "a newer sandbox-mcp may have written it: use that one, or restore the database from a backup",
    });
  }
}

/** The records of many rows, in their order. @throws SandboxError as `toRecord`. */
export function toRecords<T>(schema: z.ZodType<T>, rows: readonly Row[]): T[] {
  return rows.map((row) => toRecord(schema, row));
}

/** What to do about a file that cannot be opened. */
export function hintFor(error: unknown): string | undefined {
  const code = primaryCode(error);
  return code === undefined ? undefined : FAULTS[code]?.hint;
}

/** Whether another process has the database locked. */
export function isBusy(error: unknown): boolean {
  return primaryCode(error) === SQLITE_BUSY;
}

/** Whether the file is no whole database. */
export function isDamage(error: unknown): boolean {
  const code = primaryCode(error);
  return code !== undefined && FAULTS[code] === DAMAGED;
}

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode & PRIMARY_CODE_MASK : undefined;
}

/** Runs the work as one transaction that begins by taking the right to write. */
export function inTransaction<T>(database: DatabaseSync, work: () => T): T {
  write(database, () => database.exec("BEGIN IMMEDIATE"));
  try {
    const result = work();
    translate(() => database.exec("COMMIT"));
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

/** How long a statement waits for another process that writes. This process does nothing else then. */
export const BUSY_TIMEOUT_MS = 5000;
/** The same after a statement that waited in vain, until one has succeeded. */
const SHORT_TIMEOUT_MS = 50;
const impatient = new WeakSet<DatabaseSync>();

function write<T>(database: DatabaseSync, work: () => T): T {
  requireOpenFile(database);
  try {
    const result = translate(work);
    if (impatient.delete(database)) setBusyTimeout(database, BUSY_TIMEOUT_MS);
    return result;
  } catch (error) {
    if (error instanceof SandboxError && isBusy(error.cause) && !impatient.has(database)) {
      impatient.add(database);
      setBusyTimeout(database, SHORT_TIMEOUT_MS);
    }
    throw error;
  }
}

export function setBusyTimeout(database: DatabaseSync, ms: number): void {
  database.exec(`PRAGMA busy_timeout = ${ms}`);
}
