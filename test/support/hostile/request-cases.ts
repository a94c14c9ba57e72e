/** Requests whose parts are around, on and beyond their bounds, as chance gives them. */

import type { Random } from "../random.ts";
import { IS_WHOLE_RUN } from "../runtimes.ts";

/** What must come of a request: it is taken, or refused with words that name the field and its bound. */
export type Expected = "taken" | { readonly refused: readonly string[] };

export interface RequestCase {
  /** For people who read a failure. */
  readonly name: string;
  /** A part of the body of a create, or of the arguments of the tool. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly expected: Expected;
}

export type Door = "v1" | "v2" | "mcp";
type Pairs = readonly (readonly [name: string, value: string])[];

interface PairField {
  readonly field: "metadata" | "envVars";
  readonly tool: "metadata" | "env";
  readonly maxBytes: number;
  readonly pairBytes: number;
}

/** Literals: what the documentation promises. */
const MAX_PAIRS = 1_000;
const MAX_TOOL_PAIRS = 100;
const MAX_TOOL_VALUE = 32_768;
const FIELDS: readonly PairField[] = [
  { field: "metadata", tool: "metadata", maxBytes: 65_536, pairBytes: 0 },
  { field: "envVars", tool: "env", maxBytes: 98_304, pairBytes: 2 },
];
const LETTERS = ["a", "\u00e9", "\u65e5", "\u{1f600}"];
/** Below what a body may have. */
const HUGE_BYTES = IS_WHOLE_RUN ? 15_000_000 : 1_500_000;

/** A create with one part of chance's choice. */
export function createCase(random: Random, door: Door): RequestCase {
  const kinds = door === "mcp" ? [sizedPairs, countedPairs, oddPairs] : CREATE_KINDS;
  return random.pick(kinds)(random, door);
}

const CREATE_KINDS = [
  sizedPairs,
  sizedPairs,
  countedPairs,
  oddPairs,
  oddPairs,
  networkEntries,
  networkCounts,
  mountPaths,
  references,
];

/** One below, on and one above a bound, and far above it. */
function around(random: Random, bound: number, huge: number): number {
  const sizes = [bound - 1, bound, bound + 1, bound + 1 + random.below(bound)];
  return random.once(12) ? huge : random.pick(sizes);
}

/** Pairs of exactly so many bytes: few large values, or many small ones, of letters of all sizes. */
function sizedPairs(random: Random, door: Door): RequestCase {
  const bounds = random.pick(FIELDS);
  const size = around(random, bounds.maxBytes, door === "mcp" ? 400_000 : HUGE_BYTES);
  const amount = random.pick([1, 2, 7, 60]);
  const least = door === "mcp" ? Math.ceil(size / MAX_TOOL_VALUE) + 1 : 1;
  const pairs = fill(random, { size, amount: Math.max(amount, least), ...bounds });
  const fault = size > bounds.maxBytes ? [`${bounds.maxBytes} bytes`] : undefined;
  return pairCase({ bounds, door, pairs, fault, name: `${size} bytes in ${pairs.length} pairs` });
}

function fill(
  random: Random,
  plan: { readonly size: number; readonly amount: number; readonly pairBytes: number },
): Pairs {
  const names = Array.from({ length: plan.amount }, (_, index) => `N${index}`);
  let left = plan.size - names.reduce((sum, name) => sum + name.length + plan.pairBytes, 0);
  return names.map((name, index) => {
    const bytes = index === names.length - 1 ? left : Math.floor(plan.size / plan.amount) - 8;
    left -= bytes;
    return [name, textOf(random, bytes)] as const;
  });
}

/** A text of exactly so many bytes. */
export function textOf(random: Random, bytes: number): string {
  const letter = random.pick(LETTERS);
  const width = Buffer.byteLength(letter);
  return letter.repeat(Math.floor(bytes / width)) + "a".repeat(bytes % width);
}

function countedPairs(random: Random, door: Door): RequestCase {
  const bounds = random.pick(FIELDS);
  const bound = door === "mcp" ? MAX_TOOL_PAIRS : MAX_PAIRS;
  const amount = around(random, bound, 5_000);
  const pairs = Array.from({ length: amount }, (_, index) => [`N${index}`, "v"] as const);
  // Of a tool, the schema refuses first, in words of its own.
  const fault = amount > bound ? [String(bound)] : undefined;
  return pairCase({ bounds, door, pairs, fault, name: `${amount} pairs` });
}

/** Names and values that have no place in one of the two, or that only look as if. */
function oddPairs(random: Random, door: Door): RequestCase {
  const bounds = random.pick(FIELDS);
  const isEnvironment = bounds.field === "envVars";
  const odd: readonly (readonly [string, string, boolean])[] = [
    ["", "v", false],
    ["a\0b", "v", false],
    ["a\nb", "v", false],
    ["a\u007fb", "v", false],
    ["\ud800", "v", false],
    ["A=B", "v", !isEnvironment],
    ["__proto__", "v", door === "mcp"],
    ["constructor", "v", true],
    ["toString", "v", true],
    [" ", "v", true],
    ["A", "", true],
    ["A", "two\nlines\tand a tab", true],
    ["A", "\0", false],
    ["A", "x\udc00y", false],
    ["A", "\u001b[0m", isEnvironment],
    ["A", "\u2028\u202e\u200b", true],
  ];
  const [name, value, isFine] = random.pick(odd);
  // A list of the tool becomes an object of the wire, where this name is one like any other, and
  // is refused there.
  const isRefusedLater = name === "__proto__";
  const fault = isFine && !isRefusedLater ? undefined : [];
  const quoted = JSON.stringify([name, value]);
  return pairCase({ bounds, door, pairs: [[name, value]], fault, name: quoted });
}

function pairCase(given: {
  readonly bounds: PairField;
  readonly door: Door;
  readonly pairs: Pairs;
  readonly fault: readonly string[] | undefined;
  readonly name: string;
}): RequestCase {
  const { bounds, door, pairs, fault, name } = given;
  const field = door === "mcp" ? bounds.tool : bounds.field;
  const value =
    door === "mcp"
      ? pairs.map(([key, text]) => ({ name: key, value: text }))
      : // An own property whatever its name.
        Object.fromEntries(pairs);
  return {
    name: `${door} ${field}: ${name}`,
    body: { [field]: value },
    expected: fault === undefined ? "taken" : { refused: [field, ...fault] },
  };
}

function networkEntries(random: Random): RequestCase {
  const list = random.pick(["allowOut", "denyOut"] as const);
  const length = around(random, 256, 100_000);
  const entry = "a".repeat(length);
  const network = { denyOut: ["0.0.0.0/0"], [list]: [entry] };
  const isLong = length > 256;
  return {
    name: `network.${list} of ${length} characters`,
    body: { network },
    // A shorter one is no name and no network either, which is told in other words.
    expected: { refused: isLong ? [`network.${list}`, "256"] : [] },
  };
}

function address(_: unknown, index: number): string {
  return `8.${index >> 8}.${index & 255}.1`;
}

function networkCounts(random: Random): RequestCase {
  const amount = around(random, 1_000, 5_000);
  const allowed = random.below(Math.min(amount, 1_000));
  const network = {
    allowOut: Array.from({ length: allowed }, address),
    denyOut: Array.from({ length: amount - allowed }, address),
  };
  return {
    name: `${allowed} and ${amount - allowed} network entries`,
    body: { network },
    expected: amount > 1_000 ? { refused: ["Out", "1000"] } : "taken",
  };
}

function mountPaths(random: Random): RequestCase {
  const kind = random.pick(["path", "part", "count", "name", "control"] as const);
  const length = { path: 1_024, part: 255, count: 32, name: 512, control: 3 }[kind];
  const size = around(random, length, 10_000);
  const deep = `/m${"/aa".repeat(Math.ceil(size / 3))}`.slice(0, size - 1);
  const paths = {
    path: [`${deep}b`],
    part: [`/m/${textOf(random, size)}`],
    count: Array.from({ length: size }, (_, index) => `/m/${index}`),
    name: ["/m"],
    control: ["/m/\n"],
  }[kind];
  const name = kind === "name" ? "n".repeat(size) : "none";
  const isRefused = kind === "control" || size > length;
  const isDeep = kind === "part" && size > 1_000;
  const bound = kind === "control" ? "control" : String(isDeep ? 1_024 : length);
  return {
    name: `volumeMounts, ${kind} of ${size}`,
    body: { volumeMounts: paths.map((path) => ({ name, path })) },
    // There is no such volume, which is told only of what could be mounted.
    expected: { refused: isRefused ? ["volumeMounts", bound] : ["not found"] },
  };
}

function references(random: Random): RequestCase {
  const kind = random.pick(["templateID", "maskRequestHost"] as const);
  const bound = kind === "templateID" ? 512 : 300;
  const size = around(random, bound, HUGE_BYTES);
  const text = "t".repeat(size);
  const body =
    kind === "templateID" ? { templateID: text } : { network: { maskRequestHost: text } };
  return {
    name: `${kind} of ${size}`,
    body,
    expected: { refused: size > bound ? [kind, String(bound)] : [] },
  };
}
