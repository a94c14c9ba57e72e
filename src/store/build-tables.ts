/** The tables of template builds and of their logs. */

import type { DatabaseSync } from "node:sqlite";
import { RECORD_LEVELS } from "../common/log-level.ts";
import {
  buildLevelSchema,
  templateBuildSchema,
  type BuildLineTable,
  type TemplateBuildTable,
} from "./build-records.ts";
import { inTransaction, prepareOn, toRecord, toRecords } from "./statement.ts";

export function openTemplateBuilds(database: DatabaseSync): TemplateBuildTable {
  const prepare = prepareOn(database);
  const select = prepare("SELECT record FROM template_builds WHERE build_id = ?");
  const selectTemplate = prepare(`
    SELECT record FROM template_builds WHERE template_id = ?
    ORDER BY record ->> 'createdAtMs' DESC, build_id`);
  const selectUnfinished = prepare(
    "SELECT record FROM template_builds WHERE owner = ? AND status = 'building'",
  );
  const selectOpen = prepare(
    "SELECT record FROM template_builds WHERE status IN ('waiting', 'building')",
  );
  const selectIds = prepare("SELECT build_id FROM template_builds");
  const upsert = prepare(`
    INSERT INTO template_builds (build_id, template_id, owner, status, record)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (build_id) DO UPDATE
    SET owner = excluded.owner, status = excluded.status, record = excluded.record`);
  const erase = prepare("DELETE FROM template_builds WHERE build_id = ?");
  return {
    get: (buildId) => toRecord(templateBuildSchema, select.get(buildId)),
    put(record) {
      const { buildId, templateId, owner, status } = record;
      upsert.run(buildId, templateId, owner, status, JSON.stringify(record));
    },
    remove(buildId) {
      erase.run(buildId);
    },
    ofTemplate: (templateId) => toRecords(templateBuildSchema, selectTemplate.all(templateId)),
    unfinishedOfOwner: (owner) => toRecords(templateBuildSchema, selectUnfinished.all(owner)),
    open: () => toRecords(templateBuildSchema, selectOpen.all()),
    ids: () => selectIds.all().map((row) => String(row["build_id"])),
  };
}

export function openBuildLines(database: DatabaseSync): BuildLineTable {
  const prepare = prepareOn(database);
  const insert = prepare(`
    INSERT INTO build_lines (build_id, number, at_ms, level, step, message)
    SELECT ?, coalesce(max(number), 0) + 1, ?, ?, ?, ? FROM build_lines WHERE build_id = ?`);
  const columns = "SELECT at_ms, level, step, message FROM build_lines";
  const where = "WHERE build_id = ? AND level >= ?";
  const forward = prepare(`${columns} ${where} AND at_ms >= ? ORDER BY number LIMIT ? OFFSET ?`);
  const backward = prepare(
    `${columns} ${where} AND at_ms <= ? ORDER BY number DESC LIMIT ? OFFSET ?`,
  );
  const erase = prepare("DELETE FROM build_lines WHERE build_id = ?");
  // From each build to the next one: lines are many, and DISTINCT would read all of them.
  const selectIds = prepare(`
    WITH RECURSIVE ids (build_id) AS (
      SELECT min(build_id) FROM build_lines
      UNION ALL
      SELECT (SELECT min(next.build_id) FROM build_lines AS next WHERE next.build_id > ids.build_id)
      FROM ids WHERE build_id IS NOT NULL
    ) SELECT build_id FROM ids WHERE build_id IS NOT NULL`);
  return {
    append(buildId, lines) {
      inTransaction(database, () => {
        for (const { atMs, level, step, message } of lines) {
          insert.run(buildId, atMs, RECORD_LEVELS.indexOf(level), step, message, buildId);
        }
      });
    },
    read(buildId, { level, limit, offset, direction, cursorMs }) {
      const isForward = direction === "forward";
      const edgeMs = cursorMs ?? (isForward ? 0 : Number.MAX_SAFE_INTEGER);
      const statement = isForward ? forward : backward;
      const least = RECORD_LEVELS.indexOf(level);
      return statement.all(buildId, least, edgeMs, limit, offset).map((row) => ({
        atMs: Number(row["at_ms"]),
        level: buildLevelSchema.parse(RECORD_LEVELS[Number(row["level"])]),
        step: String(row["step"]),
        message: String(row["message"]),
      }));
    },
    remove(buildId) {
      erase.run(buildId);
    },
    buildIds: () => selectIds.all().map((row) => String(row["build_id"])),
  };
}
