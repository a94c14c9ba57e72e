/** R7: the helper for file attributes ends when nobody asks it; no request may ever meet that end. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { causeCode } from "../../../src/common/errors.ts";
import { createAttributes, type Attributes } from "../../../src/envd/attributes.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const HELPER = ["perl", "-f", join(PERL_DIRECTORY, "attributes.pl")] as const;
const CALLERS = 6;
const CALLS = IS_WHOLE_RUN ? 60_000 : 20_000;
/** Short, so that thousands of ends fall between the calls. */
const IDLE_MS = 4;
/** One call in so many comes after a pause. */
const PAUSE_EVERY = 8;
const KILL_EVERY_MS = 25;

/** Calls that were answered, of all tests. */
let answers = 0;

/** Calls in bursts, with pauses from none to twice the idle time between; the failures. */
async function call(attributes: Attributes, random: Random, calls: number): Promise<string[]> {
  const faults: string[] = [];
  for (let count = 0; count < calls; count += 1) {
    if (random.once(PAUSE_EVERY)) await delay(random.below(2 * IDLE_MS + 1));
    try {
      const found = await attributes.read(["/proc/self/status"]);
      if (found.length !== 1) faults.push(`${found.length} replies`);
      answers += 1;
    } catch (error) {
      faults.push(String(error));
    }
  }
  return faults;
}

async function callTogether(attributes: Attributes, calls: number): Promise<string[]> {
  const callers = Array.from({ length: CALLERS }, async (_, index) =>
    call(attributes, createRandom(SEED + index), Math.ceil(calls / CALLERS)),
  );
  return (await Promise.all(callers)).flat();
}

test(`E47 no call meets the end of the idle helper, seed ${SEED}`, async (context) => {
  const attributes = createAttributes(HELPER, { idleMs: IDLE_MS });
  expect(await callTogether(attributes, CALLS)).toEqual([]);
  tellCells(context, CALLS);
});

test(`E47 calls outlive a helper that is killed under them, seed ${SEED}`, async (context) => {
  const attributes = createAttributes(HELPER, { idleMs: IDLE_MS });
  const over = new AbortController();
  let kills = 0;
  const killing = (async () => {
    while (!over.signal.aborted) {
      const wanted = answers + CALLERS;
      for (const pid of await helpers()) {
        if (killIfThere(pid)) kills += 1;
      }
      await delay(KILL_EVERY_MS);
      // Each request has fewer attempts than a busy machine has time for kills.
      const hasProgress = () => answers >= wanted || over.signal.aborted;
      while (!hasProgress()) await delay(1);
    }
  })();
  const faults = await callTogether(attributes, CALLS / 10);
  over.abort();
  await killing;
  expect(faults).toEqual([]);
  expect(kills).toBeGreaterThan(5);
  tellCells(context, CALLS / 10);
});

/** False when it ended by itself since it was found: an idle one does. */
function killIfThere(pid: number): boolean {
  try {
    return process.kill(pid, "SIGKILL");
  } catch (error) {
    if (causeCode(error) !== "ESRCH") throw error;
    return false;
  }
}

/** Children of this process that run perl. */
async function helpers(): Promise<number[]> {
  const text = await readFile(`/proc/self/task/${process.pid}/children`, "utf8").catch(() => "");
  const found: number[] = [];
  for (const pid of text.split(" ").filter(Boolean).map(Number)) {
    const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
    if (name === "perl\n") found.push(pid);
  }
  return found;
}
