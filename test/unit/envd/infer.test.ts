/** What happened to a file, told from before and after. */

import { expect, test } from "vitest";
import {
  inferChange,
  inferRename,
  toNewcomer,
  type Seen,
} from "../../../src/envd/filesystem/infer.ts";

const [CREATE, WRITE, REMOVE, CHMOD] = [1, 2, 3, 5];
const NOW_MS = 1_000_000;
const FILE: Seen = {
  dev: 1,
  ino: 10,
  birthMs: 5,
  mode: 0o100644,
  uid: 0,
  gid: 0,
  size: 3,
  modifiedMs: 100,
  changedMs: 100,
  isDirectory: false,
  isFresh: false,
};
const FOLDER: Seen = { ...FILE, mode: 0o040755, isDirectory: true };
const OTHER: Seen = { ...FILE, ino: 11 };

test.for([
  ["appears", undefined, FILE, false, [CREATE], toNewcomer(FILE)],
  ["goes", FILE, undefined, false, [REMOVE], undefined],
  ["was reported already", FILE, FILE, false, [], FILE],
  ["is replaced", FILE, OTHER, false, [CREATE], toNewcomer(OTHER)],
  ["went and came again", FILE, OTHER, true, [REMOVE], undefined],
  ["was never known and is gone", undefined, undefined, false, [], undefined],
] as const)("a name that %s", ([, known, now, isRepeated, events, seen]) => {
  expect(inferRename(known, now, isRepeated)).toEqual({ events, seen });
});

test("a name that came and went at once is told twice", () => {
  const first = inferRename(undefined, undefined, true);
  const second = inferRename(first.seen, undefined, false);
  expect([first.events, second]).toEqual([[CREATE], { events: [REMOVE], seen: undefined }]);
});

test.for([
  ["new content", FILE, { ...FILE, size: 4, modifiedMs: 200, changedMs: 200 }, [WRITE]],
  ["new content of the same size", FILE, { ...FILE, modifiedMs: 200, changedMs: 200 }, [WRITE]],
  ["another mode", FILE, { ...FILE, mode: 0o100600, changedMs: 200 }, [CHMOD]],
  ["another link", FILE, { ...FILE, changedMs: 200 }, [CHMOD]],
  ["owner and content", FILE, { ...FILE, uid: 5, size: 9, modifiedMs: 200 }, [CHMOD, WRITE]],
  ["the writing of a newcomer", { ...FILE, isFresh: true }, FILE, [WRITE]],
  ["nothing to see, long ago", FILE, FILE, []],
  ["nothing to see, just now", FILE, { ...FILE, modifiedMs: NOW_MS - 1 }, [WRITE]],
  ["a folder's attributes", FOLDER, FOLDER, [CHMOD]],
  ["a name nobody told of", undefined, FILE, [CREATE]],
  ["a file that is gone", FILE, undefined, []],
] as const)("change: %s", ([, known, now, events]) => {
  expect(inferChange(known, now, NOW_MS).events).toEqual(events);
});
