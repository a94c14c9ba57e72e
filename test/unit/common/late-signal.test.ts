/** Time limits as signals, and that calls which are over leave none behind. */

import { glob, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { signalAfter } from "../../../src/common/late-signal.ts";
import { heldBytes } from "../../support/collect-now.ts";

const SOURCES = resolve(import.meta.dirname, "../../../src");
const SOON_MS = 20;
const COUNT = 500;

test("a signal fires when its time is up", async () => {
  const signal = signalAfter(SOON_MS);
  expect(signal.aborted).toBe(false);
  await expect.poll(() => signal.aborted).toBe(true);
  expect(signal.reason).toMatchObject({ name: "TimeoutError" });
});

/** As a call makes them whose caller has a time limit too: the signals that calls were given. */
function makeNested(lasting: AbortSignal): WeakRef<AbortSignal>[] {
  return Array.from({ length: COUNT }, () => {
    const given = AbortSignal.any([lasting, signalAfter(SOON_MS)]);
    AbortSignal.any([given, signalAfter(SOON_MS)]);
    return new WeakRef(given);
  });
}

test("what was made of a time limit and of a lasting signal goes with its call", async () => {
  const { signal } = new AbortController();
  const made = makeNested(signal);
  await expect
    .poll(async () => {
      // A reference that was looked at lasts until the next turn.
      await nextTurn();
      heldBytes();
      return made.filter((reference) => reference.deref() !== undefined).length;
    })
    .toBe(0);
});

test("no source uses the platform's own signals of time limits", async () => {
  const found: string[] = [];
  let files = 0;
  for await (const name of glob("**/*.ts", { cwd: SOURCES })) {
    files += 1;
    const text = await readFile(join(SOURCES, name), "utf8");
    if (/AbortSignal\.timeout\(/.test(text)) found.push(name);
  }
  expect([found, files > 300]).toEqual([[], true]);
});
