/** The table of volumes. */

import type { DatabaseSync } from "node:sqlite";
import { SandboxError } from "../common/errors.ts";
import { toRecord, toRecords } from "./records.ts";
import { prepare } from "./statement.ts";
import { volumeRecordSchema, type VolumeTable } from "./store.ts";
import { DEFAULT_TEAM } from "./team.ts";

export function openVolumes(database: DatabaseSync): VolumeTable {
  const insert = prepare(
    database,
    "INSERT INTO volumes (volume_id, name, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const select = prepare(database, "SELECT record FROM volumes WHERE volume_id = ?");
  const selectName = prepare(database, "SELECT record FROM volumes WHERE name = ?");
  const selectAll = prepare(database, "SELECT record FROM volumes");
  const erase = prepare(database, "DELETE FROM volumes WHERE volume_id = ?");
  const countUsers = prepare(
    database,
    `SELECT count(*) AS amount FROM sandboxes, json_each(sandboxes.record, '$.volumeMounts') AS mount
     WHERE mount.value ->> 'volumeId' = ?`,
  );
  return {
    add(record) {
      const key = toKey(record.team, record.name);
      if (insert.run(record.volumeId, key, JSON.stringify(record)) === 0) {
        throw new SandboxError("already_exists", `volume ${record.name} exists`);
      }
    },
    get: (volumeId) => toRecord(volumeRecordSchema, select.get(volumeId)),
    getByName: (team, name) => toRecord(volumeRecordSchema, selectName.get(toKey(team, name))),
    all: () => toRecords(volumeRecordSchema, selectAll.all()),
    remove(volumeId) {
      erase.run(volumeId);
    },
    countMounts: (volumeId) => Number(countUsers.get(volumeId)?.["amount"]),
  };
}

/** What is unique: a name is a team's own, and names have no slash. */
function toKey(team: string, name: string): string {
  return team === DEFAULT_TEAM ? name : `${team}/${name}`;
}
