/** The tools of the power-cut tests: what a cut leaves of a disk, and what it must leave of a home. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLedger } from "../../support/power-cuts/ledger.ts";
import { openReplay, type Cut, type Replay } from "../../support/power-cuts/replay.ts";
import { openWriteLog, type LogPaths, type WriteLog } from "../../support/power-cuts/write-log.ts";

const BLOCK_BYTES = 4096;
const BLOCKS = 8;
const SECTORS = BLOCK_BYTES / 512;

let folder: string;
let paths: LogPaths;
let log: WriteLog;
let replay: Replay | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "smcp-log-"));
  const at = (name: string) => join(folder, name);
  for (const name of ["now", "past"]) writeFileSync(at(name), Buffer.alloc(BLOCKS * BLOCK_BYTES));
  writeFileSync(at("position"), Buffer.alloc(8));
  paths = { now: at("now"), log: at("log"), position: at("position"), entries: at("entries") };
  log = openWriteLog(paths);
});

afterEach(() => {
  replay?.[Symbol.dispose]();
  replay = undefined;
  log[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

const block = (letter: string) => Buffer.alloc(BLOCK_BYTES, letter);
const write = (index: number, letter: string) => log.write(index * BLOCK_BYTES, block(letter));

/** The first cut ends the log. */
function cutAt(cut: Cut): Buffer {
  if (replay === undefined) {
    log.end();
    replay = openReplay(paths, join(folder, "past"));
  }
  replay.makeCut(cut, join(folder, "cut"));
  return readFileSync(join(folder, "cut"));
}

/** The first letter of each block; a dot for zeros. */
function lettersOf(bytes: Buffer): string {
  const letters = Array.from({ length: BLOCKS }, (_none, index) => bytes[index * BLOCK_BYTES] ?? 0);
  return letters.map((letter) => (letter === 0 ? "." : String.fromCharCode(letter))).join("");
}

const lettersAt = ([position, unflushed]: readonly [number, "none" | "all"]) =>
  lettersOf(cutAt({ position, unflushed, seed: 1 }));
const someAt = (seed: number) => cutAt({ position: 8, unflushed: "some", seed }).toString("latin1");
const lettersNow = () => lettersOf(log.read(0, BLOCKS * BLOCK_BYTES));

function fill(): void {
  write(0, "a");
  log.flush();
  write(1, "b");
  write(0, "c");
  log.flush();
  write(2, "d");
}

test("a cut leaves what was flushed before it, and of the rest what is asked for", () => {
  fill();
  const cuts = [
    [0, "all"],
    [1, "none"],
    [1, "all"],
    [2, "none"],
    [3, "none"],
    [3, "all"],
  ] as const;
  const later = [
    [4, "none"],
    [4, "all"],
    [5, "none"],
    [6, "none"],
    [6, "all"],
  ] as const;
  expect(cuts.map(lettersAt)).toEqual([
    "........",
    "........",
    "a.......",
    "a.......",
    "a.......",
    "ab......",
  ]);
  expect(later.map(lettersAt)).toEqual([
    "a.......",
    "cb......",
    "cb......",
    "cb......",
    "cbd.....",
  ]);
  expect(lettersNow()).toBe("cbd.....");
});

test("a disk that lies has lost all; cuts come in their order", () => {
  fill();
  const lying = { position: 6, unflushed: "none", seed: 1, ignoresFlushes: true } as const;
  expect(lettersOf(cutAt(lying))).toBe("........");
  cutAt({ position: 6, unflushed: "none", seed: 1 });
  expect(() => cutAt({ position: 1, unflushed: "none", seed: 1 })).toThrow(/a cut at/);
});

test("the same seed leaves the same part of what was not flushed, and seeds differ", () => {
  log.write(BLOCK_BYTES, Buffer.alloc(7 * BLOCK_BYTES, "w"));
  for (let index = 1; index < BLOCKS; index += 1) write(index, "x");
  const seen = Array.from({ length: 50 }, (_none, seed) => someAt(seed));
  expect(Array.from({ length: 50 }, (_none, seed) => someAt(seed))).toEqual(seen);
  expect(new Set(seen).size).toBeGreaterThan(20);
  const sectors = seen.map((text) =>
    Array.from({ length: SECTORS }, (_none, index) => text[BLOCK_BYTES + index * 512]),
  );
  expect(sectors.some((letters) => new Set(letters).size > 1)).toBe(true);
});

test("zeros are entries, the position counts all, and after the end nothing is one", () => {
  fill();
  log.zero(0, 2 * BLOCK_BYTES);
  expect(readFileSync(join(folder, "position")).readBigUInt64LE()).toBe(7n);
  log.end();
  write(7, "z");
  log.flush();
  expect(readFileSync(join(folder, "position")).readBigUInt64LE()).toBe(7n);
  expect(lettersOf(cutAt({ position: 99, unflushed: "all", seed: 1 }))).toBe("..d.....");
  expect(lettersNow()).toBe("..d....z");
});

test("a thing has its last acknowledged value, or that of a change under way", async () => {
  let now = 0;
  const ledger = createLedger(() => now);
  const change = async (value: string | undefined, fromTo: readonly [number, number]) => {
    [now] = fromTo;
    await ledger.change(
      async () => ([, now] = fromTo),
      () => [["thing", value]],
    );
  };
  await change("old", [10, 20]);
  await change("new", [20, 30]);
  await change(undefined, [50, 60]);
  const allowed = [5, 10, 19, 20, 29, 30, 49, 50, 60].map((at) => [...ledger.allowed("thing", at)]);
  expect(allowed).toEqual([
    [undefined],
    [undefined, "old"],
    [undefined, "old"],
    ["old", "new"],
    ["old", "new"],
    ["new"],
    ["new"],
    ["new", undefined],
    [undefined],
  ]);
  expect(ledger.acknowledged("thing", 49)).toBe("new");
  expect(ledger.answers((name) => name === "thing")).toEqual([20, 30, 60]);
  expect(ledger.answers((name) => name !== "thing")).toEqual([]);
  expect([...ledger.allowed("other", 60)]).toEqual([undefined]);
});
