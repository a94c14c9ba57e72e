/**
 * One maker at a time, whatever happens to makers and to those who wait: calls of several processes'
 * worth of callers, aborts, failing makers, spoiled results. By chance, from a printed seed.
 */

import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { hasParts } from "../../../src/common/files.ts";
import {
  createOnce,
  newDraft,
  type OnceTask,
  removeDeadDrafts,
  removeDrafts,
} from "../../../src/engine/host/drafts.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SEED = Number(process.env["FIRST_RUN_SEED"] ?? Date.now() % 1_000_000_000);
const CASES = IS_WHOLE_RUN ? 500 : 25;
/** The cost of a case is programs that wait for locks. */
const CASES_AT_ONCE = 4;
const PARTS = ["one", "two", "three"] as const;
const MAX_PAUSE_MS = 8;

interface Case {
  readonly random: Random;
  readonly home: string;
  readonly made: string;
  /** Makers at work now, and the most that were at once. */
  makers: number;
  most: number;
}

async function find({ made }: Case): Promise<string | undefined> {
  return (await hasParts(made, PARTS)) ? made : undefined;
}

/** As the builders of the product do; now and then it fails, before or after any file. */
async function make(one: Case, signal: AbortSignal): Promise<string> {
  const { random, home, made } = one;
  const failsAt = random.once(3) ? random.below(PARTS.length + 1) : -1;
  const keepsDraft = random.once(2);
  one.makers += 1;
  one.most = Math.max(one.most, one.makers);
  const draft = newDraft(made);
  try {
    await removeDrafts(home, "made");
    await rm(made, { recursive: true, force: true });
    await mkdir(draft);
    for (const [index, part] of PARTS.entries()) {
      await delay(random.below(MAX_PAUSE_MS));
      if (failsAt === index) throw new SandboxError("unavailable", "planned");
      await writeFile(join(draft, part), part);
      signal.throwIfAborted();
    }
    await rename(draft, made);
    return made;
  } catch (error) {
    // A killed maker removes nothing.
    if (!keepsDraft) await rm(draft, { recursive: true, force: true });
    throw error;
  } finally {
    one.makers -= 1;
  }
}

async function runCase(random: Random): Promise<void> {
  await using folder = await makeTempFolder();
  const home = folder.path;
  const one: Case = { random, home, made: join(home, "made"), makers: 0, most: 0 };
  if (random.once(3)) await mkdir(one.made);
  const task: OnceTask<string> = {
    home,
    lock: "host",
    find: () => find(one),
    make: (signal) => make(one, signal),
  };
  // Each stands for a process: they share nothing but the lock.
  const processes = Array.from({ length: 1 + random.below(3) }, () => createOnce<string>());
  const calls = Array.from({ length: 1 + random.below(4) }, async () => {
    const process = random.pick(processes);
    const stop = random.once(3) ? AbortSignal.timeout(random.below(30)) : undefined;
    await delay(random.below(MAX_PAUSE_MS));
    return process("made", task, stop).catch((error: unknown) => error);
  });
  for (const result of await Promise.all(calls)) {
    if (result === one.made) continue;
    const code = result instanceof SandboxError ? result.code : String(result);
    expect(["unavailable", "canceled"]).toContain(code);
  }
  const last = async (): Promise<unknown> => processes[0]?.("made", task).catch(() => "failed");
  // What failed is begun anew; a bound, since each attempt may be one that is planned to fail.
  let result = await last();
  for (let attempt = 0; attempt < 50 && result === "failed"; attempt += 1) result = await last();
  expect({ seed: SEED, result, most: one.most }).toEqual({ seed: SEED, result: one.made, most: 1 });
  await removeDeadDrafts({ home, folder: home, prefix: "made", lock: "host" }, () =>
    expect.unreachable(),
  );
  expect((await readdir(home)).filter((name) => name !== "host.lock")).toEqual(["made"]);
  expect(await hasParts(one.made, PARTS)).toBe(true);
}

test(`E58 ${CASES} random races for one thing: one maker, and everybody gets it whole`, async (context) => {
  process.stdout.write(`FIRST_RUN_SEED=${SEED}\n`);
  for (let done = 0; done < CASES; done += CASES_AT_ONCE) {
    const batch = Array.from({ length: Math.min(CASES_AT_ONCE, CASES - done) }, (_none, index) =>
      runCase(createRandom(SEED + done + index)),
    );
    await Promise.all(batch);
  }
  expect(CASES).toBeGreaterThanOrEqual(25);
  tellCells(context, CASES);
});

test("E58 control: without the lock two makers are at work at once", async () => {
  await using folder = await makeTempFolder();
  const home = folder.path;
  const one: Case = { random: createRandom(1), home, made: join(home, "made"), makers: 0, most: 0 };
  const signal = new AbortController().signal;
  await Promise.allSettled([make(one, signal), make(one, signal)]);
  expect(one.most).toBe(2);
});
