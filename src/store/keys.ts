/** The table of API keys; it holds hashes only. */

import type { DatabaseSync } from "node:sqlite";
import { SandboxError } from "../common/errors.ts";
import { toRecord, toRecords } from "./records.ts";
import { prepare } from "./statement.ts";
import { keyRecordSchema, type KeyTable } from "./store.ts";
import { DEFAULT_TEAM } from "./team.ts";

export function openKeys(database: DatabaseSync): KeyTable {
  const insert = prepare(
    database,
    "INSERT INTO keys (key_id, hash, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const selectHash = prepare(database, "SELECT record FROM keys WHERE hash = ?");
  const selectAll = prepare(database, "SELECT record FROM keys");
  const selectTeams = prepare(
    database,
    "SELECT DISTINCT coalesce(record ->> 'team', ?) AS team FROM keys",
  );
  const erase = prepare(database, "DELETE FROM keys WHERE key_id = ?");
  return {
    add(record) {
      if (insert.run(record.keyId, record.hash, JSON.stringify(record)) === 0) {
        throw new SandboxError("already_exists", `key ${record.keyId} exists`);
      }
    },
    getByHash: (hash) => toRecord(keyRecordSchema, selectHash.get(hash)),
    all: () => toRecords(keyRecordSchema, selectAll.all()),
    teams: () => selectTeams.all(DEFAULT_TEAM).map((row) => String(row["team"])),
    remove: (keyId) => erase.run(keyId) > 0,
  };
}
