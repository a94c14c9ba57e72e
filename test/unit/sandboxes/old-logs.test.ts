import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startLogBook } from "../../../src/sandboxes/logs/log-book.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { SANDBOX } from "../../suites/store.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const SANDBOXES = 10;
const LINES = 1_000;
const MONTH_MS = 30 * 86_400_000;

test("a service that starts goes on while it forgets many old lines", async () => {
  using store = openStore({ path: ":memory:" });
  const clock = createFakeClock();
  const atMs = clock.now();
  await clock.advance(MONTH_MS);
  const ids = Array.from({ length: SANDBOXES }, (_, index) => `i${index}`);
  for (const sandboxId of ids) {
    const lines = Array.from({ length: LINES }, () => ({ atMs, line: '{"message":"old"}' }));
    store.logs.append({ sandboxId, team: "local" }, lines);
  }
  store.logs.append({ sandboxId: "new", team: "local" }, [{ atMs: clock.now(), line: "{}" }]);
  const known = () => ids.filter((sandboxId) => store.logs.has({ sandboxId, team: "local" }));
  using book = startLogBook({ store, clock, log: createSilentLog() });
  let turns = 0;
  for (; known().length > 0 && turns < 100; turns += 1) await setImmediate();
  expect(turns).toBeGreaterThan(2);
  expect(known()).toEqual([]);
  expect(await book.read({ sandboxId: "new", limit: 10 })).toHaveLength(1);
});

test("a service forgets the oldest logs of a team that has too many", async () => {
  using store = openStore({ path: ":memory:" });
  const clock = createFakeClock();
  const ids = Array.from({ length: SANDBOXES }, (_, index) => `i${index}`);
  for (const [index, sandboxId] of ids.entries()) {
    const line = { atMs: clock.now() + index, line: '{"message":"new"}' };
    store.logs.append(
      { sandboxId, team: "local" },
      Array.from({ length: LINES }, () => line),
    );
  }
  const log = createSilentLog();
  using book = startLogBook({ store, clock, log, teamBytes: 3 * LINES * 17 });
  const known = async () => {
    const logs = ids.map(async (id) => ({
      id,
      lines: await book.read({ sandboxId: id, limit: 1 }),
    }));
    return (await Promise.all(logs)).filter(({ lines }) => lines.length > 0).map(({ id }) => id);
  };
  for (let turns = 0; (await known()).length > 3 && turns < 100; turns += 1) await setImmediate();
  await setImmediate();
  expect(await known()).toEqual(ids.slice(-3));
  book.requireKnown({ sandboxId: "i0", team: "local" });
});

test.for([
  {
    log: "a clock far ahead wrote is kept no longer than another one",
    passedMs: [0, MONTH_MS],
    kept: [true, false],
  },
  {
    log: "is kept while a clock far behind is set right",
    passedMs: [0, 12 * MONTH_MS, MONTH_MS],
    kept: [true, true, false],
  },
])("a log that $log", async ({ passedMs, kept }) => {
  using store = openStore({ path: ":memory:" });
  const clock = createFakeClock();
  const owner = { sandboxId: "ahead", team: "local" };
  store.logs.append(owner, [{ atMs: clock.now() + 12 * MONTH_MS, line: "{}" }]);
  const found: boolean[] = [];
  for (const ms of passedMs) {
    await clock.advance(ms);
    using _ = startLogBook({ store, clock, log: createSilentLog() });
    await setImmediate();
    found.push(store.logs.has(owner));
  }
  expect(found).toEqual(kept);
});

test("of a team that has too many, a log of a clock that was ahead stays no longer than newer ones", async () => {
  using store = openStore({ path: ":memory:" });
  const clock = createFakeClock();
  const append = (sandboxId: string, atMs: number) => {
    store.logs.append({ sandboxId, team: "local" }, [{ atMs, line: '{"message":"12"}' }]);
  };
  append("ahead", clock.now() + 12 * MONTH_MS);
  const options = { store, clock, log: createSilentLog(), teamBytes: 17 };
  const look = async () => {
    using book = startLogBook(options);
    await setImmediate();
    const read = async (sandboxId: string) =>
      (await book.read({ sandboxId, startMs: 0, limit: 1 })).length;
    return { ahead: await read("ahead"), newer: await read("newer") };
  };
  expect(await look()).toEqual({ ahead: 1, newer: 0 });
  await clock.advance(60_000);
  append("newer", clock.now());
  expect(await look()).toEqual({ ahead: 0, newer: 1 });
});

test("of a sandbox that is there, old lines go, and how far its daemon was read stays", async () => {
  using store = openStore({ path: ":memory:" });
  const clock = createFakeClock();
  const cursor = "daemon 8";
  for (const sandboxId of ["paused", "ended"]) {
    const line = { atMs: clock.now(), line: "{}" };
    store.logs.append({ sandboxId, team: "local" }, [line], { cursor });
  }
  store.sandboxes.put({ ...SANDBOX, sandboxId: "paused" });
  await clock.advance(MONTH_MS);
  using book = startLogBook({ store, clock, log: createSilentLog() });
  await setImmediate();
  const look = async (sandboxId: string) => ({
    lines: (await book.read({ sandboxId, startMs: 0, limit: 10 })).length,
    cursor: book.cursor(sandboxId),
  });
  expect(await look("paused")).toEqual({ lines: 0, cursor });
  expect(await look("ended")).toEqual({ lines: 0, cursor: "" });
});
