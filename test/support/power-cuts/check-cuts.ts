/** Many cuts, shared out to those who check them; faults and progress are told as they come. */

import type { Cut } from "./replay.ts";

/** Then the rest is not looked at. */
const MAX_FAULTS = 20;
const CUTS_TOLD = 500;

type CheckOfCut = (cut: Cut) => Promise<readonly string[]>;

export interface FaultList {
  /** Each with the first cut that showed it. */
  readonly faults: ReadonlyMap<string, string>;
  /** Tells those that are new. */
  add(found: readonly string[], cut: Cut): void;
  isFull(): boolean;
}

export function createFaultList(tell: (line: string) => void): FaultList {
  const faults = new Map<string, string>();
  return {
    faults,
    add(found, cut) {
      for (const fault of found) {
        if (faults.has(fault)) continue;
        faults.set(fault, JSON.stringify(cut));
        tell(`fault: ${fault}, at ${JSON.stringify(cut)}`);
      }
    },
    isFull: () => faults.size > MAX_FAULTS,
  };
}

interface CutRun {
  /** In the order of their positions: each check sees its own in that order. */
  readonly cuts: readonly Cut[];
  readonly checks: readonly CheckOfCut[];
  readonly list: FaultList;
  readonly tell: (line: string) => void;
}

/**
 * Each cut is checked once, by the check that is free first. Returns how many were.
 * @throws what a check throws, once the others have ended too
 */
export async function checkCuts({ cuts, checks, list, tell }: CutRun): Promise<number> {
  let [begun, done] = [0, 0];
  let isBroken = false;
  const checkNext = async (check: CheckOfCut): Promise<boolean> => {
    const cut = cuts[begun];
    if (cut === undefined || isBroken || list.isFull()) return false;
    begun += 1;
    list.add(await check(cut), cut);
    done += 1;
    if (done % CUTS_TOLD === 0) tell(`${done} of ${cuts.length} cuts, ${list.faults.size} faults`);
    return true;
  };
  const ends = checks.map(async (check) => {
    try {
      while (await checkNext(check));
    } catch (error) {
      isBroken = true;
      throw error;
    }
  });
  await Promise.allSettled(ends);
  await Promise.all(ends);
  return done;
}
