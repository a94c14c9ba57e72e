/** A reader that pages by time gets the lines that come after it read, whatever time they claim. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startLogBook } from "../../../src/sandboxes/logs/log-book.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const SUBJECT = { sandboxId: "i1", team: "local", templateId: "base" };
const NOW_MS = 1_800_000_000_000;

function openBook() {
  using stack = new DisposableStack();
  const store = stack.use(openStore({ path: ":memory:" }));
  const clock = createFakeClock(NOW_MS);
  const book = stack.use(startLogBook({ store, clock, log: createSilentLog() }));
  const owned = stack.move();
  let startMs = 0;
  return {
    clock,
    note: (message: string) => book.note(SUBJECT, message),
    daemon(message: string, atMs: number) {
      const said = { level: "info", timestamp: new Date(atMs).toISOString(), message };
      book.take(SUBJECT, JSON.stringify(said), { cursor: undefined, lost: 0 });
    },
    /** The next page of a reader, as `get_logs` asks for it. */
    async next(): Promise<string[]> {
      const lines = await book.read({ ...SUBJECT, limit: 100, startMs });
      startMs = (lines.at(-1)?.atMs ?? startMs - 1) + 1;
      return lines.map(({ line }) => String(JSON.parse(line).message));
    },
    [Symbol.dispose]: () => owned.dispose(),
  };
}

test("a line that comes late is on the next page", async () => {
  using opened = openBook();
  opened.note("start");
  expect(await opened.next()).toEqual(["start"]);
  opened.daemon("late", NOW_MS - 500);
  opened.daemon("later", NOW_MS - 400);
  expect(await opened.next()).toEqual(["late", "later"]);
  expect(await opened.next()).toEqual([]);
});

test("a line of the millisecond that was read last is on the next page", async () => {
  using opened = openBook();
  opened.note("first");
  expect(await opened.next()).toEqual(["first"]);
  opened.note("second");
  expect(await opened.next()).toEqual(["second"]);
});

test("lines that nobody waits for keep their times", async () => {
  using opened = openBook();
  opened.note("end");
  opened.daemon("call", NOW_MS - 500);
  expect(await opened.next()).toEqual(["call", "end"]);
});

test("after the clock was set back lines have its time", async () => {
  using opened = openBook();
  opened.note("before");
  expect(await opened.next()).toEqual(["before"]);
  opened.clock.set(NOW_MS - 3_600_000);
  opened.note("after");
  expect(await opened.next()).toEqual([]);
});
