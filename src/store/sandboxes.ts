/** The table of sandboxes. */

import type { DatabaseSync } from "node:sqlite";
import { toRecord, toRecords } from "./records.ts";
import { prepare } from "./statement.ts";
import { sandboxRecordSchema, type SandboxTable } from "./store.ts";

export function openSandboxes(database: DatabaseSync): SandboxTable {
  const select = prepare(database, "SELECT record FROM sandboxes WHERE sandbox_id = ?");
  const upsert = prepare(
    database,
    `INSERT INTO sandboxes (sandbox_id, owner, template_id, record) VALUES (?, ?, ?, ?)
     ON CONFLICT (sandbox_id) DO UPDATE SET record = excluded.record`,
  );
  const erase = prepare(database, "DELETE FROM sandboxes WHERE sandbox_id = ?");
  const selectOwner = prepare(database, "SELECT record FROM sandboxes WHERE owner = ?");
  const countTemplate = prepare(
    database,
    "SELECT count(*) AS amount FROM sandboxes WHERE template_id = ?",
  );
  const countBuild = prepare(
    database,
    "SELECT count(*) AS amount FROM sandboxes WHERE record ->> 'buildId' = ?",
  );
  const selectOwners = prepare(database, "SELECT DISTINCT owner FROM sandboxes");
  return {
    get: (sandboxId) => toRecord(sandboxRecordSchema, select.get(sandboxId)),
    put(record) {
      upsert.run(record.sandboxId, record.owner, record.templateId, JSON.stringify(record));
    },
    remove(sandboxId) {
      erase.run(sandboxId);
    },
    ofOwner: (owner) => toRecords(sandboxRecordSchema, selectOwner.all(owner)),
    countOfTemplate: (templateId) => Number(countTemplate.get(templateId)?.["amount"]),
    countOfBuild: (buildId) => Number(countBuild.get(buildId)?.["amount"]),
    owners: () => selectOwners.all().map((row) => String(row["owner"])),
  };
}
