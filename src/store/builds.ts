/** The tables of builds and of the tags that name them. */

import type { DatabaseSync } from "node:sqlite";
import { toRecord, toRecords } from "./records.ts";
import { prepare } from "./statement.ts";
import { buildRecordSchema, type BuildTable } from "./store.ts";

export function openBuilds(database: DatabaseSync): BuildTable {
  const select = prepare(database, "SELECT record FROM builds WHERE build_id = ?");
  const selectTemplate = prepare(
    database,
    `SELECT record FROM builds WHERE template_id = ?
     ORDER BY record ->> 'createdAtMs' DESC, build_id`,
  );
  const selectUnfinished = prepare(
    database,
    "SELECT record FROM builds WHERE owner = ? AND status = 'building'",
  );
  const selectAll = prepare(database, "SELECT record FROM builds");
  const upsert = prepare(
    database,
    `INSERT INTO builds (build_id, template_id, owner, status, record) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (build_id) DO UPDATE SET status = excluded.status, record = excluded.record`,
  );
  const erase = prepare(database, "DELETE FROM builds WHERE build_id = ?");
  const upsertTag = prepare(
    database,
    `INSERT INTO tags (template_id, tag, build_id, created_at_ms) VALUES (?, ?, ?, ?)
     ON CONFLICT (template_id, tag)
     DO UPDATE SET build_id = excluded.build_id, created_at_ms = excluded.created_at_ms`,
  );
  const selectTagged = prepare(
    database,
    `SELECT builds.record AS record FROM tags JOIN builds USING (build_id)
     WHERE tags.template_id = ? AND tags.tag = ? AND builds.status = 'ready'`,
  );
  const selectTags = prepare(
    database,
    "SELECT tag, build_id, created_at_ms FROM tags WHERE template_id = ? ORDER BY tag",
  );
  const eraseTag = prepare(database, "DELETE FROM tags WHERE template_id = ? AND tag = ?");
  return {
    get: (buildId) => toRecord(buildRecordSchema, select.get(buildId)),
    put(record) {
      const { buildId, templateId, owner, status } = record;
      upsert.run(buildId, templateId, owner, status, JSON.stringify(record));
    },
    remove(buildId) {
      erase.run(buildId);
    },
    ofTemplate: (templateId) => toRecords(buildRecordSchema, selectTemplate.all(templateId)),
    unfinishedOfOwner: (owner) => toRecords(buildRecordSchema, selectUnfinished.all(owner)),
    all: () => toRecords(buildRecordSchema, selectAll.all()),
    tag({ templateId, tag, buildId, createdAtMs }) {
      upsertTag.run(templateId, tag, buildId, createdAtMs);
    },
    untag: (templateId, tag) => eraseTag.run(templateId, tag) > 0,
    tagged: (templateId, tag) => toRecord(buildRecordSchema, selectTagged.get(templateId, tag)),
    tags: (templateId) =>
      selectTags.all(templateId).map((row) => ({
        templateId,
        tag: String(row["tag"]),
        buildId: String(row["build_id"]),
        createdAtMs: Number(row["created_at_ms"]),
      })),
  };
}
