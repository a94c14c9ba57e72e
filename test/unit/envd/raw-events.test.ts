/** Events of the kernel that wait for a look at their files. */

import { expect, test } from "vitest";
import { RawEvents } from "../../../src/envd/filesystem/raw-events.ts";
import { createWatchBudget } from "../../../src/envd/filesystem/watch-budget.ts";

const RENAME = { folder: "", name: "a", kind: "rename" } as const;
const CHANGE = { folder: "", name: "a", kind: "change" } as const;

test("a change that waits speaks for those after it, a rename does not", () => {
  const raw = new RawEvents(createWatchBudget());
  for (const event of [RENAME, CHANGE, CHANGE, RENAME]) raw.push(event);
  expect(raw.first).toEqual(RENAME);
  const events = raw.takeAll();
  expect(events).toEqual([RENAME, CHANGE, RENAME]);
  expect(events.map((event) => raw.settle(event))).toEqual([true, false, false]);
  raw.push(CHANGE);
  expect([raw.length, raw.takeBurst(), raw.takeBurst()]).toEqual([1, 4, 0]);
});

test("all trees share one limit, and give back what they drop", () => {
  const budget = createWatchBudget();
  const one = new RawEvents(budget);
  const other = new RawEvents(budget);
  for (let count = 0; count < 200_000; count += 1) one.push(RENAME);
  expect(() => other.push(RENAME)).toThrow(
    "queue or buffer overflow: more than 200000 watched raw events",
  );
  one.clear();
  other.push(RENAME);
  expect(other.length).toBe(1);
});
