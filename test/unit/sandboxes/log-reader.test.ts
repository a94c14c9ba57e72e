/** The lines of a daemon as they get into the book: once each, with what is missing told. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { createLogReader } from "../../../src/sandboxes/logs/follow-daemon.ts";
import { startLogBook } from "../../../src/sandboxes/logs/log-book.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const SUBJECT = { sandboxId: "i1", team: "local", templateId: "base" };

/** A book that ends with a line of this cursor. */
function openBook(cursor: string) {
  using stack = new DisposableStack();
  const store = stack.use(openStore({ path: ":memory:" }));
  const clock = createFakeClock();
  const book = stack.use(startLogBook({ store, clock, log: createSilentLog() }));
  if (cursor !== "")
    store.logs.append(SUBJECT, [{ atMs: 1, line: '{"message":"old"}' }], { cursor });
  const owned = stack.move();
  return {
    book,
    async told(): Promise<unknown[]> {
      const lines = await book.read({ ...SUBJECT, limit: 100, startMs: 2 });
      return lines.map(({ line }) => {
        const { message, lost } = JSON.parse(line);
        return lost === undefined ? message : `${message}: ${lost}`;
      });
    },
    [Symbol.dispose]: () => owned.dispose(),
  };
}

function lineOf(number: number, message: string): string {
  const said = { level: "info", timestamp: new Date(0).toISOString(), message, logger: "envd" };
  return `${number} ${JSON.stringify(said)}`;
}

test("a first connection asks for everything; numbers that are missing are counted", async () => {
  using opened = openBook("");
  const reader = createLogReader(opened.book, SUBJECT);
  expect(reader.path).toBe("/logs");
  reader.begin("aa-1");
  for (const text of [lineOf(3, "a"), lineOf(4, "b"), lineOf(9, "c")]) reader.take(text);
  expect(opened.book.cursor("i1")).toBe("aa-1 9");
  expect(await opened.told()).toEqual(["log lines lost: 2", "a", "b", "log lines lost: 4", "c"]);
  expect(opened.book.cursor("i1")).toBe("aa-1 9");
});

test("a later one goes on, and what comes again is left out", async () => {
  using opened = openBook("aa-1 4");
  const reader = createLogReader(opened.book, SUBJECT);
  expect(reader.path).toBe("/logs?daemon=aa-1&after=4");
  reader.begin("aa-1");
  for (const text of [lineOf(4, "b"), lineOf(5, "c")]) reader.take(text);
  expect(await opened.told()).toEqual(["c"]);
});

test("another daemon begins anew, with a mark", async () => {
  using opened = openBook("aa-1 4");
  const reader = createLogReader(opened.book, SUBJECT);
  reader.begin("bb-2");
  reader.take(lineOf(1, "a"));
  expect(await opened.told()).toEqual([expect.stringContaining("started anew"), "a"]);
});

test("a line that is too long, or none, leaves a mark and keeps its number", async () => {
  using opened = openBook("");
  const reader = createLogReader(opened.book, SUBJECT);
  reader.begin("aa-1");
  reader.take(lineOf(1, "a"));
  reader.take(undefined);
  reader.take("3 {}");
  reader.take(lineOf(4, "d"));
  expect(await opened.told()).toEqual([
    "a",
    "a log line was too long and is lost",
    "a line that is no log line was dropped",
    "d",
  ]);
});

test.for([undefined, "", "<x>", ["aa", "bb"]])("a daemon called %o has no cursor", async (id) => {
  using opened = openBook("");
  const reader = createLogReader(opened.book, SUBJECT);
  reader.begin(id);
  reader.take(lineOf(1, "a"));
  expect([await opened.told(), opened.book.cursor("i1")]).toEqual([["a"], ""]);
});

/** A line with so many fields besides those of every line. */
function richLine(number: number, fields: number): string {
  const names = Array.from({ length: fields }, (_, index) => `"f${index}":1`);
  return `${lineOf(number, "rich").slice(0, -1)},${names.join(",")}}`;
}

test("a line with more fields than a daemon has is dropped: a reply would have them one by one", async () => {
  using opened = openBook("");
  const reader = createLogReader(opened.book, SUBJECT);
  reader.begin("aa-1");
  for (const text of [richLine(1, 40), richLine(2, 80), lineOf(3, "c")]) reader.take(text);
  expect(await opened.told()).toEqual(["rich", "a line that is no log line was dropped", "c"]);
});
