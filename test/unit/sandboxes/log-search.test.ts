/** A search of a full log: it takes its time, and leaves the event loop to others. */

import { expect, test, vi } from "vitest";
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

/** A log of so many pages. */
function openLong(pages: number) {
  using stack = new DisposableStack();
  const store = stack.use(openStore({ path: ":memory:" }));
  const clock = createFakeClock();
  const startMs = clock.now() - LINES;
  const line = JSON.stringify({ message: "other" });
  const lines = Array.from({ length: pages * 200 }, (_, index) => ({
    atMs: startMs + index,
    line,
  }));
  store.logs.append(OWNER, lines);
  const book = stack.use(startLogBook({ store, clock, log: createSilentLog() }));
  const owned = stack.move();
  const query = { ...OWNER, startMs, limit: 5, search: "wanted" };
  return { store, book, query, [Symbol.dispose]: () => owned.dispose() };
}

test("many searches at once read one page in a turn of the event loop", async () => {
  using long = openLong(10);
  const reads = vi.spyOn(long.store.logs, "read");
  const searches = Array.from({ length: 20 }, async () => long.book.read(long.query));
  const most = { reads: 0, known: reads.mock.calls.length };
  let isOver = false;
  const look = () => {
    most.reads = Math.max(most.reads, reads.mock.calls.length - most.known);
    most.known = reads.mock.calls.length;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  await Promise.all(searches);
  isOver = true;
  expect(reads.mock.calls.length).toBeGreaterThanOrEqual(200);
  expect(most.reads).toBeLessThanOrEqual(2);
});

test("a search ends with its client", async () => {
  using long = openLong(3);
  const gone = new AbortController();
  const reading = long.book.read({ ...long.query, signal: gone.signal });
  gone.abort();
  await expect(reading).rejects.toMatchObject({ code: "canceled" });
});

test("a search that the end of the service overtakes is told so", async () => {
  const long = openLong(3);
  const reading = long.book.read(long.query);
  long[Symbol.dispose]();
  await expect(reading).rejects.toMatchObject({ code: "unavailable" });
});
