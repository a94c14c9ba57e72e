/** One way to run several statements as one. */

import type { DatabaseSync } from "node:sqlite";
import { translate } from "./statement.ts";

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
