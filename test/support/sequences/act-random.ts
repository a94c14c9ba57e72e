/** Chance for a client of a random sequence, which goes another way when others are faster. */

import { createRandom, type Random } from "../random.ts";

const SEEDS = 1_000_000_000;

/** The choices of an act follow from the seed and its number, whatever the acts before it have needed. */
export interface ActRandom extends Random {
  nextAct(): void;
}

function createActRandom(seed: number): ActRandom {
  const seeds = createRandom(seed);
  let current = createRandom(seeds.below(SEEDS));
  return {
    seed,
    nextAct() {
      current = createRandom(seeds.below(SEEDS));
    },
    below: (limit) => current.below(limit),
    pick: (choices) => current.pick(choices),
    once: (times) => current.once(times),
    bytes: (length) => current.bytes(length),
  };
}

/** One for each of the clients of a run. */
export function createActRandoms(random: Random, names: readonly string[]) {
  return names.map((name) => ({ name, own: createActRandom(random.below(SEEDS)) }));
}
