/** Paths and JSON that were made to break whoever reads them. */

import { mutate, type Random } from "../random.ts";

const LONG = 100_000;

/** A path below or beside `base`, as bytes: not all of them are text. */
export function hostilePath(random: Random, base: string): Buffer {
  const names = [
    "..",
    ".",
    "~",
    "~root",
    "\0",
    "d",
    "e",
    "loop",
    "l299",
    "l38",
    "\u202e",
    "ü",
    "%2e%2e",
  ];
  const count = random.once(10) ? 2_100 : random.below(6);
  const parts = Array.from({ length: count }, () => random.pick(names));
  const starts = [base, "", "~", "~/", "/", "//", base, `${base}/${"x".repeat(255)}`];
  const tails = ["", "/", "\0", "x".repeat(256), "x".repeat(4_097)];
  const text = [random.pick(starts), ...parts, random.pick(tails)].join("/");
  return random.once(3) ? mutate(random, Buffer.from(text)) : Buffer.from(text);
}

/** One of the bodies, as it is or spoiled: deep, long, doubled, out of range, or no JSON at all. */
export function hostileJson(random: Random, bodies: readonly object[]): Buffer {
  const text = JSON.stringify(random.pick(bodies));
  const values = [
    "1e400",
    "-0",
    "9007199254740993",
    "4294967296",
    "-1",
    "null",
    '"\\ud800"',
    '"\\u0000"',
    `"${"x".repeat(LONG)}"`,
    "[".repeat(LONG),
    `${"[".repeat(LONG)}${"]".repeat(LONG)}`,
    `${'{"a":'.repeat(LONG)}1${"}".repeat(LONG)}`,
    `{${Array.from({ length: 5_000 }, (_, index) => `"k${index}":1`).join()}}`,
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{}}}',
  ];
  const value = random.pick(values);
  const spoiled = [
    text,
    value,
    text.replace(/:[^,{}]+/, `:${value}`),
    text.replace("{", `{"__proto__":${value},`),
    text.replace("{", `{"unknown":${value},`),
    `{${text.slice(1, -1)},${text.slice(1)}`,
    `${text}${text}`,
  ];
  const bytes = Buffer.from(random.pick(spoiled));
  return random.once(3) && bytes.length < 10_000 ? mutate(random, bytes) : bytes;
}
