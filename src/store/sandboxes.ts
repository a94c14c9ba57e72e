/** The table of sandboxes. */

import type { DatabaseSync } from "node:sqlite";
import { toRecord, toRecords } from "./records.ts";
import { sandboxRecordSchema, type SandboxTable } from "./store.ts";

export function openSandboxes(database: DatabaseSync): SandboxTable {
  const select = database.prepare("SELECT record FROM sandboxes WHERE sandbox_id = ?");
  const upsert = database.prepare(
    `INSERT INTO sandboxes (sandbox_id, owner, template_id, record) VALUES (?, ?, ?, ?)
     ON CONFLICT (sandbox_id) DO UPDATE SET record = excluded.record`,
  );
  const erase = database.prepare("DELETE FROM sandboxes WHERE sandbox_id = ?");
  const selectOwner = database.prepare("SELECT record FROM sandboxes WHERE owner = ?");
  const countTemplate = database.prepare(
    "SELECT count(*) AS amount FROM sandboxes WHERE template_id = ?",
  );
  const selectOwners = database.prepare("SELECT DISTINCT owner FROM sandboxes");
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
    owners: () => selectOwners.all().map((row) => String(row["owner"])),
  };
}
