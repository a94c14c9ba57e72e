/** A neighbour's calls beside a bomb and without it, in turns, so that both see the same machine. */

import { setTimeout as delay } from "node:timers/promises";
import { delaysOf, type NeighbourFigures } from "../run/figures.ts";

export interface NeighbourTrial {
  readonly bomb: string;
  /** Of the neighbour; one that fails fails the trial. */
  call(): Promise<unknown>;
  /** Sets the bomb off; disposed, it is over. */
  ignite(): Promise<AsyncDisposable>;
  readonly rounds: number;
  /** Of each kind in a round. */
  readonly calls: number;
}

/** Calls come as a person's do, not as fast as they can. */
const GAP_MS = 10;
/** What the bomb needs to get going. */
const FUSE_MS = 300;

/** Measures both kinds. */
export async function measureNeighbour(trial: NeighbourTrial): Promise<NeighbourFigures> {
  const without: number[] = [];
  const beside: number[] = [];
  await takeCalls(trial);
  for (let round = 0; round < trial.rounds; round += 1) {
    without.push(...(await takeCalls(trial)));
    const bomb = await trial.ignite();
    try {
      await delay(FUSE_MS);
      beside.push(...(await takeCalls(trial)));
    } finally {
      await bomb[Symbol.asyncDispose]();
    }
  }
  return {
    bomb: trial.bomb,
    calls: beside.length,
    without: delaysOf(without),
    beside: delaysOf(beside),
  };
}

async function takeCalls(trial: NeighbourTrial): Promise<number[]> {
  const tookMs: number[] = [];
  for (let count = 0; count < trial.calls; count += 1) {
    const startedAt = performance.now();
    await trial.call();
    tookMs.push(performance.now() - startedAt);
    await delay(GAP_MS);
  }
  return tookMs;
}
