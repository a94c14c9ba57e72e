/** A search of a full log: it takes its time, and leaves the event loop to others. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startLogBook } from "../../../src/sandboxes/logs/log-book.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const OWNER = { sandboxId: "i1", team: "local" };
const LINES = 6_000;

test.for(["forward", "backward"] as const)(
  "a search %s through a long log lets other work run, and finds each line once",
  async (direction) => {
    using store = openStore({ path: ":memory:" });
    const clock = createFakeClock();
    const startMs = clock.now() - LINES;
    const lines = Array.from({ length: LINES }, (_, index) => ({
      // Several of one moment, also where a page ends.
      atMs: startMs + Math.floor(index / 7),
      line: JSON.stringify({ message: index % 1_000 === 0 ? `wanted ${index}` : `other ${index}` }),
    }));
    store.logs.append(OWNER, lines);
    using book = startLogBook({ store, clock, log: createSilentLog() });
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const found = await book.read({ ...OWNER, startMs, limit: 5, direction, search: "wanted" });
    isOver = true;
    const numbers = found.map(({ line }) => Number(/wanted ([0-9]+)/.exec(line)?.[1]));
    const all = [0, 1_000, 2_000, 3_000, 4_000, 5_000];
    expect(numbers).toEqual((direction === "forward" ? all : all.toReversed()).slice(0, 5));
    expect(turns).toBeGreaterThan(10);
  },
);

test("a line that comes late during a search is found by the next one", async () => {
  using store = openStore({ path: ":memory:" });
  const clock = createFakeClock();
  const nowMs = clock.now();
  const startMs = nowMs - 1_000;
  const lines = Array.from({ length: 500 }, (_, index) => ({
    atMs: startMs + index,
    line: JSON.stringify({ message: index === 499 ? "wanted last" : "other" }),
  }));
  store.logs.append(OWNER, lines);
  using book = startLogBook({ store, clock, log: createSilentLog() });
  const query = { ...OWNER, limit: 10, search: "wanted" };
  const reading = book.read({ ...query, startMs });
  const said = {
    level: "info",
    timestamp: new Date(startMs + 5).toISOString(),
    message: "wanted late",
  };
  const subject = { ...OWNER, templateId: "base" };
  book.take(subject, JSON.stringify(said), { cursor: undefined, lost: 0 });
  const first = await reading;
  const next = await book.read({ ...query, startMs: (first.at(-1)?.atMs ?? 0) + 1 });
  const told = [...first, ...next].map(({ line }) => String(JSON.parse(line).message));
  expect(told.toSorted()).toEqual(["wanted last", "wanted late"]);
});
