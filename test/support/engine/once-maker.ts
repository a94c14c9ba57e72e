/**
 * A process that makes a folder of files once, as the builders of the product do, slowly enough to be
 * killed in the middle. It prints `begun` when its draft is there and what it found when it is done.
 */

import { once } from "node:events";
import { mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { createOnce, newDraft, removeDrafts } from "../../../src/engine/host/drafts.ts";

/** What a complete folder holds. */
export const MADE_FILES: readonly string[] = Array.from(
  { length: 40 },
  (_none, at) => `file-${at}`,
);
/** The name of the folder in the home. */
export const MADE = "made";

const TURNS_PER_FILE = 20;

/** The folder's names once it is complete; undefined before that. */
export async function findMade(home: string): Promise<readonly string[] | undefined> {
  const names = await readdir(join(home, MADE)).catch(() => []);
  return names.length === MADE_FILES.length ? names : undefined;
}

/** Fills a draft of its own and renames it; waits for `onBegun` once the draft is there. */
async function makeSlowly(home: string, onBegun: () => Promise<void>): Promise<readonly string[]> {
  await removeDrafts(home, MADE);
  const draft = newDraft(join(home, MADE));
  await mkdir(draft);
  await onBegun();
  for (const name of MADE_FILES) {
    await writeFile(join(draft, name), name);
    for (let count = 0; count < TURNS_PER_FILE; count += 1) await turn();
  }
  await rename(draft, join(home, MADE));
  return readdir(join(home, MADE));
}

async function main(home: string, stays: boolean): Promise<void> {
  const onBegun = async (): Promise<void> => {
    process.stdout.write("begun\n");
    // Until it is killed.
    if (stays) await once(process.stdin.resume(), "end");
  };
  const made = await createOnce<readonly string[]>()(home, {
    home,
    lock: "host",
    find: () => findMade(home),
    make: () => makeSlowly(home, onBegun),
  });
  process.stdout.write(`found ${made.length}\n`);
}

const [, program, home, mode] = process.argv;
if (program === import.meta.filename && home !== undefined) await main(home, mode === "stay");
