/** Lists of snapshots, of which no more is read than a page has: a team may have any number. */

import type { DatabaseSync } from "node:sqlite";
import type { ListedSnapshot, SnapshotTable } from "./snapshot-records.ts";
import { prepareOn, type Row } from "./statement.ts";
import { DEFAULT_TEAM } from "./store.ts";

/** As the index has it; null for other templates, and for what is no record. */
const TEAM = `
  CASE WHEN json_valid(template.record) AND template.record ->> 'kind' = 'snapshot'
    THEN coalesce(template.record ->> 'team', '${DEFAULT_TEAM}') END`;
const CREATED = "build.record ->> 'createdAtMs'";

/** The newest build of each template that a tag names: it says where the snapshot is in the list. */
const NEWEST = `
  SELECT template.template_id AS template_id, template.name AS name,
    ${CREATED} AS created_at_ms,
    (
      SELECT min(tag) FROM tags
      WHERE tags.build_id = build.build_id AND tags.template_id = template.template_id
    ) AS tag
  FROM builds AS build INDEXED BY builds_by_time
    CROSS JOIN templates AS template INDEXED BY snapshots_by_team
  WHERE build.status = 'ready' AND template.template_id = build.template_id AND ${TEAM} = ?1
    AND EXISTS (
      SELECT 1 FROM tags
      WHERE tags.build_id = build.build_id AND tags.template_id = template.template_id
    )
    AND build.build_id = (
      SELECT other.build_id FROM builds AS other
      WHERE other.template_id = template.template_id AND other.status = 'ready'
        AND EXISTS (
          SELECT 1 FROM tags
          WHERE tags.build_id = other.build_id AND tags.template_id = other.template_id
        )
      ORDER BY other.record ->> 'createdAtMs' DESC, other.build_id LIMIT 1
    )`;
const OF_SANDBOX = `AND build.template_id IN (
    SELECT template_id FROM builds WHERE record ->> 'sourceSandboxId' = ?5
  )`;
/** Of two of the same millisecond the identifier decides. */
const PAGE = `AND ${CREATED} <= ?2 AND (${CREATED} < ?2 OR build.template_id > ?3)
  ORDER BY ${CREATED} DESC, build.template_id LIMIT ?4`;
const START = { atMs: Number.MAX_SAFE_INTEGER, id: "" } as const;

export function openSnapshots(database: DatabaseSync): SnapshotTable {
  const prepare = prepareOn(database);
  const all = prepare(`${NEWEST} ${PAGE}`);
  const ofSandbox = prepare(`${NEWEST} ${OF_SANDBOX} ${PAGE}`);
  return {
    list({ team, sandboxId, limit, after = START }) {
      const values = [team, after.atMs, after.id, limit];
      const rows =
        sandboxId === undefined ? all.all(...values) : ofSandbox.all(...values, sandboxId);
      return rows.map(toListed);
    },
  };
}

function toListed(row: Row): ListedSnapshot {
  const name = row["name"];
  return {
    templateId: String(row["template_id"]),
    name: typeof name === "string" ? name : null,
    tag: String(row["tag"]),
    createdAtMs: Number(row["created_at_ms"]),
  };
}
