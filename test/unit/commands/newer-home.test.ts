/** A home whose database a newer program has written is refused before anything in it is changed. */

import { chmod, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { openHome } from "../../../src/commands/home/home.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const NEWER = 99;

test.for(["state.db", "state.db-logs"])("a newer %s", async (name) => {
  await using home = await makeTempFolder();
  openStore({ path: join(home.path, "state.db") })[Symbol.dispose]();
  const file = join(home.path, name);
  {
    using database = new DatabaseSync(file);
    database.exec(`PRAGMA user_version = ${NEWER}`);
  }
  await chmod(home.path, 0o755);
  const before = await readdir(home.path);
  await expect(openHome(home.path)).rejects.toMatchObject({
    code: "failed_precondition",
    message: `database ${file} has version ${NEWER}`,
    hint: "a newer sandbox-mcp has written it: use that one, or another --home",
  });
  expect(await readdir(home.path)).toEqual(before);
  expect((await stat(home.path)).mode & 0o777).toBe(0o755);
});

test("one of this version is opened", async () => {
  await using home = await makeTempFolder();
  openStore({ path: join(home.path, "state.db") })[Symbol.dispose]();
  await openHome(home.path);
  expect(await readdir(home.path)).toContain("place.json");
});
