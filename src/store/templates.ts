/** The table of templates. */

import type { DatabaseSync } from "node:sqlite";
import { toRecord, toRecords } from "./records.ts";
import { prepare } from "./statement.ts";
import { templateRecordSchema, type TemplateTable } from "./store.ts";

export function openTemplates(database: DatabaseSync): TemplateTable {
  const select = prepare(database, "SELECT record FROM templates WHERE template_id = ?");
  const selectName = prepare(database, "SELECT record FROM templates WHERE name = ?");
  const selectAll = prepare(database, "SELECT record FROM templates");
  const upsert = prepare(
    database,
    `INSERT INTO templates (template_id, name, record) VALUES (?, ?, ?)
     ON CONFLICT (template_id) DO UPDATE SET name = excluded.name, record = excluded.record`,
  );
  const erase = prepare(database, "DELETE FROM templates WHERE template_id = ?");
  const eraseBuilds = prepare(database, "DELETE FROM builds WHERE template_id = ?");
  return {
    get: (templateId) => toRecord(templateRecordSchema, select.get(templateId)),
    getByName: (name) => toRecord(templateRecordSchema, selectName.get(name)),
    put(record) {
      upsert.run(record.templateId, record.name, JSON.stringify(record));
    },
    remove(templateId) {
      erase.run(templateId);
      eraseBuilds.run(templateId);
    },
    all: () => toRecords(templateRecordSchema, selectAll.all()),
  };
}
