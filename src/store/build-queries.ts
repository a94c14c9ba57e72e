/** Questions about all builds, of which there may be any number, that read few of their records. */

import type { DatabaseSync } from "node:sqlite";
import { prepareOn, toRecord, toRecords } from "./statement.ts";
import { buildRecordSchema, type BuildTable } from "./store.ts";

const READY = `
  SELECT record, count(*) OVER () AS amount FROM builds
  WHERE template_id = ? AND status = 'ready'
  ORDER BY record ->> 'createdAtMs' DESC, build_id LIMIT 1`;

type Asked = "after" | "hasFolder" | "readyOf" | "unfinished" | "withoutTemplate";

export function openBuildQueries(database: DatabaseSync): Pick<BuildTable, Asked> {
  const prepare = prepareOn(database);
  const selectFolder = prepare("SELECT 1 FROM build_folders WHERE folder = ? LIMIT 1");
  const selectReady = prepare(READY);
  const selectUnfinished = prepare("SELECT record FROM builds WHERE status = 'building'");
  const selectHidden = prepare(
    "SELECT record FROM builds WHERE template_id NOT IN (SELECT template_id FROM templates)",
  );
  const selectAfter = prepare(
    "SELECT record FROM builds WHERE build_id > ? ORDER BY build_id LIMIT ?",
  );
  return {
    after: (buildId, limit) => toRecords(buildRecordSchema, selectAfter.all(buildId, limit)),
    hasFolder: (folder) => selectFolder.get(folder) !== undefined,
    readyOf(templateId) {
      const row = selectReady.get(templateId);
      return { newest: toRecord(buildRecordSchema, row), amount: Number(row?.["amount"] ?? 0) };
    },
    unfinished: () => toRecords(buildRecordSchema, selectUnfinished.all()),
    withoutTemplate: () => toRecords(buildRecordSchema, selectHidden.all()),
  };
}
