/** The table of single values, such as the fingerprint of the seed. */

import type { DatabaseSync } from "node:sqlite";
import { prepareOn } from "./statement.ts";
import type { ValueTable } from "./store.ts";

/** Single values by name. */
export function openValues(database: DatabaseSync): ValueTable {
  const prepare = prepareOn(database);
  const select = prepare("SELECT value FROM facts WHERE name = ?");
  const upsert = prepare(
    "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
  );
  return {
    get(name) {
      const value = select.get(name)?.["value"];
      return value === undefined ? undefined : String(value);
    },
    put(name, value) {
      upsert.run(name, value);
    },
  };
}
