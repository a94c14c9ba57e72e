/** The store on SQLite. */

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { STATE_STEPS } from "../../../src/store/schema.sql.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { describeStore, SANDBOX } from "../../suites/store.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

describe("a store on SQLite", () => {
  describeStore(() => openStore({ path: ":memory:" }));
});

test("several processes may have the file open", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  using first = openStore({ path });
  using second = openStore({ path });
  first.sandboxes.put(SANDBOX);
  expect(second.sandboxes.get("ia")).toEqual(SANDBOX);
});

test("a write-ahead log that grew beside a reader is cut once the reader has gone", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  using store = openStore({ path });
  const lines = Array.from({ length: 1_000 }, () => ({ atMs: 1, line: "x".repeat(2_000) }));
  const write = (times: number) => {
    for (let time = 0; time < times; time += 1) {
      store.logs.append({ sandboxId: `i${time % 3}`, team: "local" }, lines);
    }
  };
  const sizeMib = async () => (await stat(`${path}-logs-wal`)).size / 1024 ** 2;
  {
    using reader = new DatabaseSync(`${path}-logs`, { readOnly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM lines").get();
    write(15);
    expect(await sizeMib()).toBeGreaterThan(25);
    reader.exec("COMMIT");
  }
  // Written back by the first, begun anew by the second.
  write(2);
  expect(await sizeMib()).toBeLessThan(17);
});

test.for(["state.db", "state.db-logs"])(
  "a newer %s is refused, and left as it is",
  async (name) => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "state.db");
    openStore({ path })[Symbol.dispose]();
    {
      using database = new DatabaseSync(join(folder.path, name));
      database.exec("PRAGMA user_version = 99");
    }
    expect(() => openStore({ path })).toThrow(
      expect.objectContaining({
        code: "failed_precondition",
        message: `database ${join(folder.path, name)} has version 99`,
        hint: "a newer sandbox-mcp has written it: use that one, or another --home",
      }),
    );
    // Nothing has it open any more: the last one that closes it removes its log.
    expect((await readdir(folder.path)).toSorted()).toEqual(["state.db", "state.db-logs"]);
  },
);

/** What the first version had on record of a sandbox. */
function oldestRecord(): object {
  const {
    team: _team,
    keepsMemory: _keeps,
    hasMemory: _has,
    isDaemonUnresponsive: _daemon,
    pauseReason: _reason,
    leftMs: _left,
    bootId: _boot,
    timeoutSeconds: _timeout,
    volumeMounts: _mounts,
    mcpServers: _servers,
    memory: _memory,
    ...oldest
  } = SANDBOX;
  return oldest;
}

test.for(STATE_STEPS.map((_, index) => index + 1))(
  "a home of version %i opens",
  async (version) => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "state.db");
    {
      using database = new DatabaseSync(path);
      for (const step of STATE_STEPS.slice(0, version)) database.exec(step);
      database.exec(`PRAGMA user_version = ${version}`);
      const values = [SANDBOX.sandboxId, SANDBOX.owner, SANDBOX.templateId];
      database
        .prepare("INSERT INTO sandboxes VALUES (?, ?, ?, ?)")
        .run(...values, JSON.stringify(oldestRecord()));
    }
    using store = openStore({ path });
    expect(store.sandboxes.ofOwner(SANDBOX.owner)).toEqual([SANDBOX]);
    expect([store.volumes.all(), store.templateBuilds.open(), store.builds.cached("key")]).toEqual([
      [],
      [],
      undefined,
    ]);
  },
);

test("rows of an older home that came to another template are found by it", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  const version = 5;
  {
    using database = new DatabaseSync(path);
    for (const step of STATE_STEPS.slice(0, version)) database.exec(step);
    database.exec(`PRAGMA user_version = ${version}`);
    database
      .prepare("INSERT INTO sandboxes VALUES (?, ?, ?, ?)")
      .run(SANDBOX.sandboxId, SANDBOX.owner, "first", JSON.stringify(SANDBOX));
  }
  using store = openStore({ path });
  const counts = ["first", SANDBOX.templateId].map((id) => store.sandboxes.countOfTemplate(id));
  expect(counts).toEqual([0, 1]);
});

test("the folders that builds of an older home name are found", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  const version = 7;
  const { buildId, templateId, owner, status } = READY_BUILD;
  const record = { ...READY_BUILD, layers: [{ root: "layer/root" }] };
  {
    using database = new DatabaseSync(path);
    for (const step of STATE_STEPS.slice(0, version)) database.exec(step);
    database.exec(`PRAGMA user_version = ${version}`);
    database
      .prepare("INSERT INTO builds VALUES (?, ?, ?, ?, ?)")
      .run(buildId, templateId, owner, status, JSON.stringify(record));
  }
  using store = openStore({ path });
  expect([store.builds.get(buildId), store.builds.hasFolder("layer")]).toEqual([record, true]);
});

test.for(["{", "{}"])(
  "an older home with a row that holds %s is refused and left as it is",
  async (record) => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "state.db");
    using database = new DatabaseSync(path);
    for (const step of STATE_STEPS.slice(0, 4)) database.exec(step);
    database.exec("PRAGMA user_version = 4");
    database.prepare("INSERT INTO sandboxes VALUES ('i0', 'serve', 't1', ?)").run(record);
    expect(() => openStore({ path })).toThrow(
      expect.objectContaining({
        code: "failed_precondition",
        message: `database ${path} of version 4 could not be changed to version ${STATE_STEPS.length}`,
        hint: "it is as before: use the sandbox-mcp that wrote it, or restore it from a backup",
      }),
    );
    expect(database.prepare("PRAGMA user_version").get()).toEqual({ user_version: 4 });
    expect(database.prepare("SELECT owner FROM sandboxes").get()).toEqual({ owner: "serve" });
  },
);

test.for(["{", "{}"])("a row that holds %s is told as such", async (record) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  openStore({ path })[Symbol.dispose]();
  {
    using database = new DatabaseSync(path);
    const insert = database.prepare("INSERT INTO templates (template_id, record) VALUES (?, ?)");
    insert.run("t1", record);
    database
      .prepare("INSERT INTO template_builds VALUES (?, ?, ?, ?, ?)")
      .run("b", "t1", "o", "building", record);
  }
  using store = openStore({ path });
  const told = expect.objectContaining({
    code: "unavailable",
    message: "database has a row that cannot be read",
    hint: expect.stringContaining("a newer sandbox-mcp may have written it"),
  });
  expect(() => store.templates.all()).toThrow(told);
  expect(() => store.templates.allBuilt()).toThrow(told);
  expect(() => store.templateBuilds.open()).toThrow(told);
});
