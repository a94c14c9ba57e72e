/** Prepared statements and transactions, whose faults are SandboxErrors. */

import type { DatabaseSync, SQLInputValue, SQLOutputValue } from "node:sqlite";
import { diskFullError, SandboxError } from "../common/errors.ts";

export type Row = Readonly<Record<string, SQLOutputValue>>;

export interface Statement {
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  /** How many rows it changed. */
  run(...values: SQLInputValue[]): number;
}

/** Prepares once; every call may throw a SandboxError. */
export function prepare(database: DatabaseSync, sql: string): Statement {
  const statement = translate(() => database.prepare(sql));
  return {
    get: (...values) => translate(() => statement.get(...values)),
    all: (...values) => translate(() => statement.all(...values)),
    run: (...values) => Number(translate(() => statement.run(...values)).changes),
  };
}

/** Result codes of SQLite. */
const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;
const PRIMARY_CODE_MASK = 0xff;

/** @throws SandboxError resource_exhausted for a full disk, unavailable for a busy file, internal. */
export function translate<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    if (primaryCode(error) === SQLITE_FULL) throw diskFullError("database", error);
    if (isBusy(error)) {
      throw new SandboxError("unavailable", "database is busy", { cause: error });
    }
    throw new SandboxError("internal", "database failed", { cause: error });
  }
}

/** Whether another process has the database locked. */
export function isBusy(error: unknown): boolean {
  return primaryCode(error) === SQLITE_BUSY;
}

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode & PRIMARY_CODE_MASK : undefined;
}

/** Runs the work as one transaction that begins by taking the right to write. */
export function inTransaction<T>(database: DatabaseSync, work: () => T): T {
  translate(() => database.exec("BEGIN IMMEDIATE"));
  try {
    const result = work();
    translate(() => database.exec("COMMIT"));
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}
