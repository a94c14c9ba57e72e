/** The files of a database as an older version left them. */

import { DatabaseSync } from "node:sqlite";
import { LOG_STEPS, STATE_STEPS } from "../../src/store/schema.sql.ts";

/** Makes the database at `path` and its log file, without the last change of each. */
export function makeOlderFiles(path: string): void {
  const files = [
    { file: path, steps: STATE_STEPS },
    { file: `${path}-logs`, steps: LOG_STEPS },
  ];
  for (const { file, steps } of files) {
    using database = new DatabaseSync(file);
    database.exec("PRAGMA journal_mode = WAL");
    for (const step of steps.slice(0, -1)) database.exec(step);
    database.exec(`PRAGMA user_version = ${steps.length - 1}`);
  }
}
