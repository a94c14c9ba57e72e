/** E52 without a sandbox: who waits for a daemon is told in time, and nobody else. */

import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { createDaemonWatch } from "../../../src/sandboxes/boot/daemon-call.ts";
import { createRandom } from "../../support/random.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const PATIENCE_MS = 10;
const SILENCE_MS = 20;
const CALLS = 500;

test("nobody is asked while nobody waits, or waits only shortly", async () => {
  let questions = 0;
  const watch = createDaemonWatch({
    patienceMs: PATIENCE_MS,
    ask: async () => {
      questions += 1;
    },
  });
  for (let count = 0; count < 10; count += 1) watch.wait(() => undefined)();
  await delay(3 * PATIENCE_MS);
  expect(questions).toBe(0);
});

test(`each of ${CALLS} waits ends once, by a reply or by silence, seed ${SEED}`, async () => {
  const random = createRandom(SEED);
  let isStopped = false;
  const watch = createDaemonWatch({
    patienceMs: PATIENCE_MS,
    silenceMs: SILENCE_MS,
    async ask(signal) {
      if (!isStopped) return;
      await once(signal, "abort");
      signal.throwIfAborted();
    },
  });
  const call = async (): Promise<string> => {
    const { promise, resolve } = Promise.withResolvers<string>();
    let told = 0;
    const stop = watch.wait((error) => {
      told += 1;
      resolve(error.code);
    });
    await delay(random.below(2 * PATIENCE_MS));
    if (!isStopped && told === 0) {
      stop();
      await delay(2 * (PATIENCE_MS + SILENCE_MS));
      return told === 0 ? "replied" : "told after its reply";
    }
    return promise;
  };
  const outcomes: Promise<string>[] = [];
  for (let count = 0; count < CALLS; count += 1) {
    if (random.once(50)) isStopped = !isStopped;
    outcomes.push(call());
    if (random.once(20)) await delay(random.below(PATIENCE_MS));
  }
  isStopped = true;
  const seen = new Set(await Promise.all(outcomes));
  expect([...seen].toSorted()).toEqual(["deadline_exceeded", "replied"]);
});

test("a daemon that starts anew meanwhile is asked again", async () => {
  const answers = [() => Promise.reject(new Error("reset")), () => Promise.resolve()];
  const asked = Promise.withResolvers<void>();
  const watch = createDaemonWatch({
    patienceMs: PATIENCE_MS,
    async ask() {
      const answer = answers.shift();
      if (answers.length === 0) asked.resolve();
      await answer?.();
    },
  });
  let told = 0;
  const stop = watch.wait(() => {
    told += 1;
  });
  await asked.promise;
  stop();
  expect(told).toBe(0);
});
