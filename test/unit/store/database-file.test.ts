/** The file below the store while a service has it open: gone, replaced, locked or damaged. */

import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { openStore } from "../../../src/store/sqlite.ts";
import { SANDBOX } from "../../suites/store.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

describe("a database whose file is another one by now", () => {
  const REFUSAL = expect.objectContaining({
    code: "unavailable",
    message: "the database of the home was removed or replaced",
    hint: "put the home back as it was, or restart the service",
  });

  test.for([
    { what: "removed", change: (path: string) => rm(path) },
    {
      what: "replaced",
      change: async (path: string) => {
        await rename(path, `${path}.old`);
        await writeFile(path, "");
      },
    },
  ])("$what: nothing is written that no later process finds", async ({ change }) => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "state.db");
    using store = openStore({ path });
    await change(path);
    expect(() => store.sandboxes.put(SANDBOX)).toThrow(REFUSAL);
    expect(() => store.transaction(() => undefined)).toThrow(REFUSAL);
    expect(store.sandboxes.get("ia")).toBeUndefined();
  });

  test("put back: the store goes on", async () => {
    await using folder = await makeTempFolder();
    const path = join(folder.path, "state.db");
    using store = openStore({ path });
    await rename(path, `${path}.old`);
    expect(() => store.sandboxes.put(SANDBOX)).toThrow(REFUSAL);
    await rename(`${path}.old`, path);
    store.sandboxes.put(SANDBOX);
    expect(store.sandboxes.get("ia")).toEqual(SANDBOX);
  });
});

test("of the writes during a long lock only the first one waits for its end", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  using store = openStore({ path });
  using other = new DatabaseSync(path);
  other.exec("BEGIN IMMEDIATE");
  // If each waited, the test would reach its time limit.
  for (let write = 0; write < 20; write += 1) {
    expect(() => store.sandboxes.put(SANDBOX)).toThrow(
      expect.objectContaining({
        code: "unavailable",
        message: "database is busy",
        hint: "another program has locked it: end that program, then repeat the request",
      }),
    );
  }
  other.exec("COMMIT");
  store.sandboxes.put(SANDBOX);
  expect(store.sandboxes.get("ia")).toEqual(SANDBOX);
}, 30_000);

test("a damaged database is named, with what to do about it", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  await writeFile(path, "no database ".repeat(1_000));
  expect(() => openStore({ path })).toThrow(
    expect.objectContaining({
      code: "unavailable",
      message: `database ${path} cannot be opened`,
      hint: "restore it from a backup, or use another --home",
    }),
  );
});

test("damaged logs are named, with how to go on without them", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  await writeFile(`${path}-logs`, "no database ".repeat(1_000));
  expect(() => openStore({ path })).toThrow(
    expect.objectContaining({
      code: "unavailable",
      message: `database ${path}-logs cannot be opened`,
      hint:
        "it has logs alone: restore it from a backup, " +
        "or move it away with its -wal and -shm for an empty one",
    }),
  );
});
