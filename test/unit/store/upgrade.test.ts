/** The upgrade of a database that another process is upgrading, or writes to. */

import assert from "node:assert/strict";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test, vi } from "vitest";
import { openHome } from "../../../src/commands/home/home.ts";
import { createDeferredService } from "../../../src/commands/service/deferred-service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { loadConfig } from "../../../src/config.ts";
import { LOG_STEPS, STATE_STEPS } from "../../../src/store/schema.sql.ts";
import { openStore, upgradeStore } from "../../../src/store/sqlite.ts";
import { SANDBOX } from "../../suites/store.ts";
import { makeOlderFiles } from "../../support/older-files.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test.for([
  { what: "a home", name: "state.db" },
  { what: "a home", name: "state.db-logs" },
  { what: "a copy", name: "state.db" },
  { what: "a copy", name: "state.db-logs" },
])(
  "$what whose $name another process upgrades is opened once that has ended",
  async ({ what, name }) => {
    await using folder = await makeTempFolder();
    const original = join(folder.path, "home");
    await openHome(original);
    const home = what === "a copy" ? join(folder.path, "copy") : original;
    if (home !== original) await cp(original, home, { recursive: true });
    const path = join(home, "state.db");
    makeOlderFiles(path);
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
  makeOlderFiles(path);
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

/** A home of an older version in which another process writes, and the lines of who waits for that. */
async function openBusyHome() {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const home = join(folder.path, "home");
  await openHome(home);
  const path = join(home, "state.db");
  makeOlderFiles(path);
  const other = stack.adopt(new DatabaseSync(path), (database) => database.close());
  other.exec("BEGIN IMMEDIATE");
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  stack.defer(() => stderr.mockRestore());
  const owned = stack.move();
  return {
    home,
    waited: async () => expect.poll(() => stderr.mock.calls.length).toBe(1),
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
}

test("a command that is told to stop no longer waits for an upgrade", async () => {
  await using busy = await openBusyHome();
  const stop = new AbortController();
  const opening = openHome(busy.home, stop.signal);
  await busy.waited();
  stop.abort();
  await expect(opening).rejects.toMatchObject({
    code: "canceled",
    message: `no longer waiting for the upgrade of database ${join(busy.home, "state.db")}`,
  });
});

test.for(["its end", "a stop signal"])(
  "a stdio server's service no longer waits for an upgrade after %s",
  async (way) => {
    await using busy = await openBusyHome();
    const loaded = loadConfig({}, ["stdio", "--home", busy.home]);
    assert("config" in loaded);
    const stop = new AbortController();
    const late = createDeferredService(loaded.config, createSilentLog(), stop.signal);
    const beginning = Promise.allSettled([late.begin()]);
    await busy.waited();
    if (way === "its end") await late[Symbol.asyncDispose]();
    else stop.abort();
    expect(await beginning).toMatchObject([{ status: "rejected", reason: { code: "canceled" } }]);
    await late[Symbol.asyncDispose]();
  },
);
