/** The tables of the state database. A row holds its record as JSON, checked by its schema when read. */

import type { DatabaseSync } from "node:sqlite";
import { SandboxError } from "../common/errors.ts";
import { openBuildQueries } from "./build-queries.ts";
import { prepareOn, toRecord, toRecords } from "./statement.ts";
import {
  buildRecordSchema,
  creationRecordSchema,
  DEFAULT_TEAM,
  keyRecordSchema,
  sandboxRecordSchema,
  templateRecordSchema,
  volumeRecordSchema,
  type BuildTable,
  type CreationTable,
  type KeyTable,
  type SandboxTable,
  type TemplateTable,
  type ValueTable,
  type VolumeTable,
} from "./store.ts";

export function openSandboxes(database: DatabaseSync): SandboxTable {
  const prepare = prepareOn(database);
  const select = prepare("SELECT record FROM sandboxes WHERE sandbox_id = ?");
  const upsert = prepare(`
    INSERT INTO sandboxes (sandbox_id, owner, template_id, record) VALUES (?, ?, ?, ?)
    ON CONFLICT (sandbox_id) DO UPDATE
    SET owner = excluded.owner, template_id = excluded.template_id, record = excluded.record`);
  const erase = prepare("DELETE FROM sandboxes WHERE sandbox_id = ?");
  const selectOwner = prepare("SELECT record FROM sandboxes WHERE owner = ?");
  const countTemplate = prepare("SELECT count(*) AS amount FROM sandboxes WHERE template_id = ?");
  const countBuild = prepare(
    "SELECT count(*) AS amount FROM sandboxes WHERE record ->> 'buildId' = ?",
  );
  const selectOwners = prepare("SELECT DISTINCT owner FROM sandboxes");
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

export function openTemplates(database: DatabaseSync): TemplateTable {
  const prepare = prepareOn(database);
  const select = prepare("SELECT record FROM templates WHERE template_id = ?");
  const selectName = prepare("SELECT record FROM templates WHERE name = ?");
  const selectAll = prepare("SELECT record FROM templates");
  const selectBuilt = prepare(
    "SELECT record FROM templates WHERE NOT json_valid(record) OR record ->> 'kind' IS NOT 'snapshot'",
  );
  const upsert = prepare(`
    INSERT INTO templates (template_id, name, record) VALUES (?, ?, ?)
    ON CONFLICT (template_id) DO UPDATE SET name = excluded.name, record = excluded.record`);
  const erase = prepare("DELETE FROM templates WHERE template_id = ?");
  const eraseBuilds = prepare("DELETE FROM builds WHERE template_id = ?");
  const eraseRequests = prepare("DELETE FROM template_builds WHERE template_id = ?");
  return {
    get: (templateId) => toRecord(templateRecordSchema, select.get(templateId)),
    getByName: (name) => toRecord(templateRecordSchema, selectName.get(name)),
    put(record) {
      upsert.run(record.templateId, record.name, JSON.stringify(record));
    },
    remove(templateId) {
      erase.run(templateId);
      eraseBuilds.run(templateId);
      eraseRequests.run(templateId);
    },
    all: () => toRecords(templateRecordSchema, selectAll.all()),
    allBuilt: () => toRecords(templateRecordSchema, selectBuilt.all()),
  };
}

/** Builds, and the tags that name them. */
export function openBuilds(database: DatabaseSync): BuildTable {
  const prepare = prepareOn(database);
  const select = prepare("SELECT record FROM builds WHERE build_id = ?");
  const selectTemplate = prepare(`
    SELECT record FROM builds WHERE template_id = ?
    ORDER BY record ->> 'createdAtMs' DESC, build_id`);
  const selectAll = prepare("SELECT record FROM builds");
  const selectCached = prepare(`
    SELECT record FROM builds WHERE record ->> 'cacheKey' = ? AND status = 'ready'
    ORDER BY record ->> 'createdAtMs' DESC LIMIT 1`);
  const upsert = prepare(`
    INSERT INTO builds (build_id, template_id, owner, status, record) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (build_id) DO UPDATE
    SET template_id = excluded.template_id, owner = excluded.owner,
      status = excluded.status, record = excluded.record`);
  const erase = prepare("DELETE FROM builds WHERE build_id = ?");
  const upsertTag = prepare(`
    INSERT INTO tags (template_id, tag, build_id, created_at_ms) VALUES (?, ?, ?, ?)
    ON CONFLICT (template_id, tag)
    DO UPDATE SET build_id = excluded.build_id, created_at_ms = excluded.created_at_ms`);
  const selectTagged = prepare(`
    SELECT builds.record AS record FROM tags JOIN builds USING (build_id)
    WHERE tags.template_id = ? AND tags.tag = ? AND builds.status = 'ready'`);
  const selectTags = prepare(
    "SELECT tag, build_id, created_at_ms FROM tags WHERE template_id = ? ORDER BY tag",
  );
  const eraseTag = prepare("DELETE FROM tags WHERE template_id = ? AND tag = ?");
  return {
    ...openBuildQueries(database),
    get: (buildId) => toRecord(buildRecordSchema, select.get(buildId)),
    put(record) {
      const { buildId, templateId, owner, status } = record;
      upsert.run(buildId, templateId, owner, status, JSON.stringify(record));
    },
    remove(buildId) {
      erase.run(buildId);
    },
    ofTemplate: (templateId) => toRecords(buildRecordSchema, selectTemplate.all(templateId)),
    all: () => toRecords(buildRecordSchema, selectAll.all()),
    cached: (cacheKey) => toRecord(buildRecordSchema, selectCached.get(cacheKey)),
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

export function openVolumes(database: DatabaseSync): VolumeTable {
  const prepare = prepareOn(database);
  const insert = prepare(
    "INSERT INTO volumes (volume_id, name, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const select = prepare("SELECT record FROM volumes WHERE volume_id = ?");
  const mark = prepare(
    "UPDATE volumes SET record = json_remove(record, '$.isBeingMade') WHERE volume_id = ?",
  );
  const selectName = prepare("SELECT record FROM volumes WHERE name = ?");
  const selectAll = prepare("SELECT record FROM volumes");
  const erase = prepare("DELETE FROM volumes WHERE volume_id = ?");
  const countUsers = prepare(`
    SELECT count(*) AS amount FROM sandboxes, json_each(sandboxes.record, '$.volumeMounts') AS mount
    WHERE mount.value ->> 'volumeId' = ?`);
  const selectUsed = prepare(`
    SELECT DISTINCT mount.value ->> 'volumeId' AS volume_id
    FROM sandboxes, json_each(sandboxes.record, '$.volumeMounts') AS mount`);
  return {
    add(record) {
      const key = toKey(record.team, record.name);
      if (insert.run(record.volumeId, key, JSON.stringify(record)) === 0) {
        throw new SandboxError("already_exists", `volume ${record.name} exists`);
      }
    },
    setMade(volumeId) {
      mark.run(volumeId);
    },
    get: (volumeId) => toRecord(volumeRecordSchema, select.get(volumeId)),
    getByName: (team, name) => toRecord(volumeRecordSchema, selectName.get(toKey(team, name))),
    all: () => toRecords(volumeRecordSchema, selectAll.all()),
    remove(volumeId) {
      erase.run(volumeId);
    },
    countMounts: (volumeId) => Number(countUsers.get(volumeId)?.["amount"]),
    mounted: () => new Set(selectUsed.all().map((row) => String(row["volume_id"]))),
  };
}

/** What is unique: a name is a team's own, and names have no slash. */
function toKey(team: string, name: string): string {
  return team === DEFAULT_TEAM ? name : `${team}/${name}`;
}

/** Creates with an idempotency key. */
export function openCreations(database: DatabaseSync): CreationTable {
  const prepare = prepareOn(database);
  const select = prepare(
    "SELECT record FROM creations WHERE team = ? AND key = ? AND created_at_ms >= ?",
  );
  const insert = prepare(`
    INSERT INTO creations (team, key, created_at_ms, record) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING`);
  // A statement that writes waits for the lock of the database, also where it changes nothing.
  const selectAhead = prepare("SELECT 1 FROM creations WHERE created_at_ms > ? LIMIT 1");
  const rebase = prepare("UPDATE creations SET created_at_ms = ?1 WHERE created_at_ms > ?1");
  // The record has the time at which it was written.
  const lost = `
    created_at_ms < ?2 AND CAST(record ->> 'createdAtMs' AS INTEGER) BETWEEN ?2 AND ?1`;
  const selectLost = prepare(`SELECT 1 FROM creations WHERE ${lost} LIMIT 1`);
  const restore = prepare(`
    UPDATE creations SET created_at_ms = CAST(record ->> 'createdAtMs' AS INTEGER) WHERE ${lost}`);
  const eraseOld = prepare("DELETE FROM creations WHERE created_at_ms < ?");
  const eraseBeyond = prepare(`
    DELETE FROM creations WHERE team = ? AND created_at_ms < (
      SELECT created_at_ms FROM creations WHERE team = ?
      ORDER BY created_at_ms DESC LIMIT 1 OFFSET ?
    )`);
  return {
    rebase(nowMs, sinceMs) {
      if (selectAhead.get(nowMs) !== undefined) rebase.run(nowMs);
      if (selectLost.get(nowMs, sinceMs) !== undefined) restore.run(nowMs, sinceMs);
    },
    get: ({ team, key }, sinceMs) => toRecord(creationRecordSchema, select.get(team, key, sinceMs)),
    add(record, { sinceMs, most }) {
      const { team, key, createdAtMs } = record;
      eraseOld.run(sinceMs);
      const isNew = insert.run(team, key, createdAtMs, JSON.stringify(record)) > 0;
      if (isNew) eraseBeyond.run(team, team, most - 1);
      return isNew;
    },
  };
}

/** API keys, as hashes only. */
export function openKeys(database: DatabaseSync): KeyTable {
  const prepare = prepareOn(database);
  const insert = prepare(
    "INSERT INTO keys (key_id, hash, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const selectHash = prepare("SELECT record FROM keys WHERE hash = ?");
  const selectAll = prepare("SELECT record FROM keys");
  const selectTeams = prepare("SELECT DISTINCT coalesce(record ->> 'team', ?) AS team FROM keys");
  const erase = prepare("DELETE FROM keys WHERE key_id = ?");
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

/** Single values by name. */
export function openValues(database: DatabaseSync): ValueTable {
  const prepare = prepareOn(database);
  const select = prepare("SELECT value FROM facts WHERE name = ?");
  const upsert = prepare(
    "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
  );
  return {
    get(name) {
      const value = select.get(name)?.["value"];
      return value === undefined ? undefined : String(value);
    },
    put(name, value) {
      upsert.run(name, value);
    },
  };
}
