/** The table of volumes. */

import type { DatabaseSync } from "node:sqlite";
import { SandboxError } from "../common/errors.ts";
import { toRecord, toRecords } from "./records.ts";
import { prepare } from "./statement.ts";
import { volumeRecordSchema, type VolumeTable } from "./store.ts";

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
      if (insert.run(record.volumeId, record.name, JSON.stringify(record)) === 0) {
        throw new SandboxError("already_exists", `volume ${record.name} exists`);
      }
    },
    get: (volumeId) => toRecord(volumeRecordSchema, select.get(volumeId)),
    getByName: (name) => toRecord(volumeRecordSchema, selectName.get(name)),
    all: () => toRecords(volumeRecordSchema, selectAll.all()),
    remove(volumeId) {
      erase.run(volumeId);
    },
    countMounts: (volumeId) => Number(countUsers.get(volumeId)?.["amount"]),
  };
}
