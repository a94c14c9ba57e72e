/** The upgrade of a database that another process is upgrading, or writes to. */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test, vi } from "vitest";
import { openHome } from "../../../src/commands/home/home.ts";
import { LOG_STEPS, STATE_STEPS } from "../../../src/store/schema.sql.ts";
import { openStore, upgradeStore } from "../../../src/store/sqlite.ts";
import { SANDBOX } from "../../suites/store.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Files of an older version. */
function makeOlder(path: string): void {
  const files = [
    { file: path, steps: STATE_STEPS },
    { file: `${path}-logs`, steps: LOG_STEPS },
  ];
  for (const { file, steps } of files) {
    using database = new DatabaseSync(file);
    database.exec("PRAGMA journal_mode = WAL");
    for (const step of steps.slice(0, -1)) database.exec(step);
    database.exec(`PRAGMA user_version = ${steps.length - 1}`);
  }
}

test.for(["state.db", "state.db-logs"])(
  "a home whose %s another process upgrades is opened once that has ended",
  async (name) => {
    await using folder = await makeTempFolder();
    const home = join(folder.path, "home");
    await openHome(home);
    const path = join(home, "state.db");
    makeOlder(path);
    const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    using other = new DatabaseSync(join(home, name));
    const steps = name === "state.db" ? STATE_STEPS : LOG_STEPS;
    other.exec("BEGIN IMMEDIATE");
    const opening = openHome(home);
    const told = () => stderr.mock.calls.map(([text]) => String(text));
    const note = `sandbox-mcp: waiting for another process that writes to ${path}\n`;
    await expect.poll(told).toEqual([note]);
    other.exec(steps.at(-1) ?? "");
    other.exec(`PRAGMA user_version = ${steps.length}`);
    other.exec("COMMIT");
    await opening;
    expect(told()).toEqual([note]);
    stderr.mockRestore();
    using store = openStore({ path });
    store.sandboxes.put(SANDBOX);
    expect(store.sandboxes.get("ia")).toEqual(SANDBOX);
  },
);

test("an upgrade that another process keeps from beginning ends with what to do", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  makeOlder(path);
  using other = new DatabaseSync(path);
  other.exec("BEGIN IMMEDIATE");
  const waits = vi.fn<() => void>();
  await expect(upgradeStore({ path, onWait: waits, maxWaitMs: 250 })).rejects.toMatchObject({
    code: "unavailable",
    message: `database ${path} is written to by another process`,
    hint: expect.stringMatching(/^that process upgrades it, or /),
  });
  expect(waits).toHaveBeenCalledOnce();
});
