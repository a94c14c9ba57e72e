/** Seeded chance: the same seed gives the same choices on every machine. */

export interface Random {
  readonly seed: number;
  /** A whole number from 0 up to, but not including, `limit`. */
  below(limit: number): number;
  pick<T>(choices: readonly T[]): T;
  /** True once in `times`. */
  once(times: number): boolean;
  bytes(length: number): Buffer;
}

/** The seed of this run, printed so that `FUZZ_SEED=<seed>` makes the same choices again. */
export function chooseSeed(): number {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
  process.stdout.write(`FUZZ_SEED=${seed}\n`);
  return seed;
}

/** A generator whose choices follow from the seed alone. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000) * limit);
  };
  return {
    seed,
    below,
    pick(choices) {
      const chosen = choices.at(below(choices.length));
      if (chosen === undefined) throw new Error("nothing to choose from");
      return chosen;
    },
    once: (times) => below(times) === 0,
    bytes: (length) => Buffer.from(Array.from({ length }, () => below(256))),
  };
}

/** Bytes that a parser is more likely to trip over than over others. */
const TRICKY = [
  "\0",
  "\r\n",
  "\r\n\r\n",
  "\n",
  ":",
  ";",
  '"',
  "\\",
  "%",
  "%00",
  "--",
  "{",
  "[",
  "]",
];

/** The bytes with up to four places changed: flipped, doubled, cut out, or something put in. */
export function mutate(random: Random, source: Uint8Array): Buffer {
  let bytes = Buffer.from(source);
  for (let count = 1 + random.below(4); count > 0; count -= 1) {
    const at = random.below(bytes.length + 1);
    const length = 1 + random.below(16);
    const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)];
    const [piece, rest] = [tail.subarray(0, length), tail.subarray(length)];
    const inserted = [
      random.bytes(piece.length),
      Buffer.concat([piece, piece]),
      Buffer.alloc(0),
      Buffer.concat([Buffer.from(random.pick(TRICKY)), piece]),
      Buffer.concat([Buffer.alloc(random.below(512), piece.at(0) ?? 0x61), piece]),
    ];
    bytes = Buffer.concat([head, random.pick(inserted), rest]);
  }
  return bytes;
}

const SEEDS = 1_000_000_000;

/** The seed of a run: that of FUZZ_SEED or a new one, printed under the name that asks for it. */
export function printedSeed(name: string): number {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % SEEDS);
  process.stderr.write(`${name}: FUZZ_SEED=${seed}\n`);
  return seed;
}
