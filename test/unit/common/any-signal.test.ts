/** Signals made of signals fire, whatever Node collects meanwhile. */

import { glob, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { anySignal } from "../../../src/common/any-signal.ts";

const SOURCE = resolve(import.meta.dirname, "../../../src");
const COUNT = 5;

/** Only its listener knows the last signal, and nothing the one before. */
function listen(signal: AbortSignal, onFired: () => void): void {
  const made = anySignal([signal, new AbortController().signal]);
  const last = anySignal([made, new AbortController().signal]);
  last.addEventListener("abort", onFired, { once: true });
}

async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  // Finalizers run in turns of their own.
  for (let round = 0; round < 4; round += 1) {
    runInNewContext("gc()");
    await delay(20);
  }
}

test("a signal of signals fires although nothing holds it but its listener", async () => {
  const controller = new AbortController();
  let fired = 0;
  for (let count = 0; count < COUNT; count += 1) listen(controller.signal, () => (fired += 1));
  await collectGarbage();
  controller.abort();
  expect(fired).toBe(COUNT);
});

test("it has the reason of the one that fired, also before it was made", () => {
  const [never, fired] = [new AbortController(), new AbortController()];
  const waiting = anySignal([anySignal([never.signal]), fired.signal]);
  fired.abort("reason");
  expect(waiting.reason).toBe("reason");
  expect(anySignal([waiting, new AbortController().signal]).aborted).toBe(true);
});

test("no module makes such a signal by itself", async () => {
  const files = await Array.fromAsync(glob("**/*.ts", { cwd: SOURCE }));
  const texts = await Promise.all(
    files.map(async (name) => ({ name, text: await readFile(join(SOURCE, name), "utf8") })),
  );
  const found = texts.filter(({ text }) => text.includes("AbortSignal.any("));
  expect(found.map(({ name }) => name)).toEqual(["common/any-signal.ts"]);
});
