/** The store on SQLite. */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { openStore } from "../../../src/store/sqlite.ts";
import { describeStore, SANDBOX } from "../../suites/store.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

describe("a store on SQLite", () => {
  describeStore(() => openStore({ path: ":memory:" }));
});

test("several processes may have the file open; a newer version is refused", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  {
    using first = openStore({ path });
    using second = openStore({ path });
    first.sandboxes.put(SANDBOX);
    expect(second.sandboxes.get("ia")).toEqual(SANDBOX);
  }
  {
    using database = new DatabaseSync(path);
    database.exec("PRAGMA user_version = 99");
  }
  expect(() => openStore({ path })).toThrow(
    expect.objectContaining({ code: "failed_precondition" }),
  );
});
