/** The steps that bring a database to its present form. A step that was released never changes. */

/** The folders that a build of a trigger names, as `layerFolders` has them. */
const foldersOf = (row: "new" | "old"): string => `
  SELECT substr(path, 1, instr(path || '/', '/') - 1) AS folder
  FROM (
    SELECT value ->> 'root' AS path FROM json_each(${row}.record, '$.layers')
    UNION SELECT value ->> 'usr' FROM json_each(${row}.record, '$.layers')
  )
  WHERE substr(path, 1, 1) <> '/'
  UNION
  SELECT rtrim(rtrim(image, replace(image, '/', '')), '/')
  FROM (SELECT ${row}.record ->> '$.disk.image' AS image) WHERE image IS NOT NULL
  UNION
  SELECT memory FROM (SELECT ${row}.record ->> '$.memory.folder' AS memory)
  WHERE memory IS NOT NULL`;
const FORGET_FOLDERS = `
    DELETE FROM build_folders
    WHERE build_id = old.build_id AND folder IN (${foldersOf("old")});`;
const KEEP_FOLDERS = `
    INSERT INTO build_folders SELECT folder, new.build_id FROM (${foldersOf("new")});`;

/** State that must survive a power cut: `PRAGMA user_version` counts the steps that were taken. */
export const STATE_STEPS: readonly string[] = [
  `
  CREATE TABLE sandboxes (
    sandbox_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    template_id TEXT NOT NULL,
    record TEXT NOT NULL
  ) STRICT;
  CREATE INDEX sandboxes_by_owner ON sandboxes (owner);
  CREATE INDEX sandboxes_by_template ON sandboxes (template_id);

  CREATE TABLE templates (
    template_id TEXT PRIMARY KEY,
    name TEXT UNIQUE,
    record TEXT NOT NULL
  ) STRICT;

  CREATE TABLE builds (
    build_id TEXT PRIMARY KEY,
    template_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    record TEXT NOT NULL
  ) STRICT;
  CREATE INDEX builds_by_template ON builds (template_id);

  CREATE TABLE tags (
    template_id TEXT NOT NULL REFERENCES templates ON DELETE CASCADE,
    tag TEXT NOT NULL,
    build_id TEXT NOT NULL REFERENCES builds ON DELETE CASCADE,
    PRIMARY KEY (template_id, tag)
  ) STRICT;

  CREATE TABLE keys (
    key_id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL
  ) STRICT;

  CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT;
  `,
  `
  CREATE TABLE volumes (
    volume_id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL
  ) STRICT;
  `,
  "ALTER TABLE tags ADD COLUMN created_at_ms INTEGER NOT NULL DEFAULT 0;",
  `
  CREATE TABLE creations (
    team TEXT NOT NULL,
    key TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (team, key)
  ) STRICT;
  CREATE INDEX creations_by_time ON creations (created_at_ms);
  CREATE INDEX creations_by_team ON creations (team, created_at_ms);
  `,
  `
  CREATE TABLE template_builds (
    build_id TEXT PRIMARY KEY,
    template_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    record TEXT NOT NULL
  ) STRICT;
  CREATE INDEX template_builds_by_template ON template_builds (template_id);
  CREATE INDEX builds_by_cache_key ON builds (record ->> 'cacheKey');
  `,
  // Rows that came to another template kept the columns of the first one.
  `
  UPDATE sandboxes SET owner = record ->> 'owner', template_id = record ->> 'templateId';
  UPDATE builds SET owner = record ->> 'owner', template_id = record ->> 'templateId';
  CREATE INDEX sandboxes_by_build ON sandboxes (record ->> 'buildId');
  CREATE INDEX tags_by_build ON tags (build_id);
  `,
  // Lists of snapshots are read in pages, by time or of one sandbox.
  `
  DROP INDEX builds_by_template;
  CREATE INDEX builds_by_template ON builds
    (template_id, record ->> 'createdAtMs' DESC, build_id);
  CREATE INDEX builds_by_time ON builds
    (record ->> 'createdAtMs' DESC, template_id, status, build_id);
  CREATE INDEX builds_by_source ON builds (record ->> 'sourceSandboxId');
  CREATE INDEX snapshots_by_team ON templates (
    CASE WHEN json_valid(record) AND record ->> 'kind' = 'snapshot'
      THEN coalesce(record ->> 'team', 'local') END,
    template_id
  );
  `,
  // What builds name is looked up, however many builds there are.
  `
  CREATE TABLE build_folders (
    folder TEXT NOT NULL,
    build_id TEXT NOT NULL,
    PRIMARY KEY (folder, build_id)
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER build_added AFTER INSERT ON builds BEGIN ${KEEP_FOLDERS}
  END;
  CREATE TRIGGER build_changed AFTER UPDATE OF record ON builds BEGIN ${FORGET_FOLDERS} ${KEEP_FOLDERS}
  END;
  CREATE TRIGGER build_removed AFTER DELETE ON builds BEGIN ${FORGET_FOLDERS}
  END;
  UPDATE builds SET record = record;
  `,
];

/** Logs, in a file of their own: they are many, and the last second of them may be lost. */
export const LOG_STEPS: readonly string[] = [
  `
  CREATE TABLE lines (
    line_id INTEGER PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    line TEXT NOT NULL
  ) STRICT;
  CREATE INDEX lines_by_time ON lines (sandbox_id, at_ms, line_id);

  CREATE TABLE books (
    sandbox_id TEXT PRIMARY KEY,
    lines INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    written_at_ms INTEGER NOT NULL
  ) STRICT;
  `,
  "ALTER TABLE books ADD COLUMN team TEXT NOT NULL DEFAULT 'local';",
  "ALTER TABLE books ADD COLUMN cursor TEXT NOT NULL DEFAULT '';",
  `
  CREATE TABLE build_lines (
    build_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    level INTEGER NOT NULL,
    step TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (build_id, number)
  ) STRICT, WITHOUT ROWID;
  `,
];
