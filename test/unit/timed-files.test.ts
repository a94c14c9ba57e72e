/** A test of the levels e2e and security that compares a duration with a bound is a timed file. */

import { readdir, readFile } from "node:fs/promises";
import { dirname, join, matchesGlob, relative, resolve } from "node:path";
import { expect, test } from "vitest";
import { LONG_FILES } from "../support/run/long-files.ts";
import { TIMED_FILES } from "../support/run/timed-files.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** They bound a wait or a run, or stamp for a report: no test compares what they read. */
const UNCOMPARED = [
  "demo/steps",
  "e2e/from-nothing/first-run.test",
  "support/faults/fault-home",
  "support/faults/file-model",
  "support/hostile/fuzz",
  "support/power-cuts/recorded-disk",
  "support/faults/step-listener",
  "support/write-faults/faulty-home",
];

test("who reads the timer is listed", async () => {
  const files = [...(await listTests("e2e")), ...(await listTests("security"))];
  const timed = files.filter((file) => TIMED_FILES.some((pattern) => matchesGlob(file, pattern)));
  expect(timed.length).toBeGreaterThan(10);
  const late: string[] = [];
  for (const file of files.filter((one) => !timed.includes(one))) {
    if (await readsTimer(file, new Set())) late.push(file);
  }
  expect(late).toEqual([]);
});

test("every pattern names a file", async () => {
  const levels = await Promise.all(["e2e", "integration", "security"].map(listTests));
  const patterns = [...TIMED_FILES, ...Object.values(LONG_FILES).flat()];
  const idle = patterns.filter(
    (pattern) => !levels.flat().some((file) => matchesGlob(file, pattern)),
  );
  expect(idle).toEqual([]);
});

async function listTests(level: string): Promise<string[]> {
  const names = await readdir(join(ROOT, "test", level), { recursive: true });
  return names.filter((name) => name.endsWith(".test.ts")).map((name) => `test/${level}/${name}`);
}

/** Whether a file, or one of the tests' own that it imports, reads it. */
async function readsTimer(file: string, seen: Set<string>): Promise<boolean> {
  if (seen.has(file) || !file.startsWith("test/")) return false;
  seen.add(file);
  const text = await readFile(join(ROOT, file), "utf8");
  const isCompared = !UNCOMPARED.some((name) => file === `test/${name}.ts`);
  if (isCompared && text.includes("performance.now(")) return true;
  for (const [, path = ""] of text.matchAll(/ from "(\.[^"]+\.ts)"/g)) {
    const target = relative(ROOT, resolve(ROOT, dirname(file), path));
    if (await readsTimer(target, seen)) return true;
  }
  return false;
}
