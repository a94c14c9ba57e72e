/** How large the parts of a request may be. Bytes are those of UTF-8, never characters. */

import { z } from "../common/schema.ts";

/** Metadata is held in memory for each sandbox and repeated by every list. */
const MAX_METADATA_BYTES = 65_536;
/**
 * The kernel takes 128 KiB for one string of an environment, and for arguments and environment
 * together at least as much, so that a program can be started with all of it.
 */
const MAX_ENVIRONMENT_BYTES = 98_304;
/** The client sends a filter in the address, where a byte can become seven; a head takes 16 KiB. */
const MAX_FILTER_BYTES = 2_048;
const MAX_PAIRS = 1_000;
/** Each pair of a filter is looked up in each sandbox. */
export const MAX_FILTER_PAIRS = 100;

/** A reference has three parts of at most 128 characters. */
export const MAX_REFERENCE_CHARACTERS = 512;
/** The longest name of a host, and the longest spelling of a network, are shorter. */
export const MAX_NETWORK_ENTRY_CHARACTERS = 256;
export const MAX_NETWORK_ENTRIES = 1_000;
/** A name and a port. */
export const MAX_MASKED_HOST_CHARACTERS = 300;
/** Each is a mount in the kernel's tables. */
export const MAX_MOUNTS = 32;
/** The kernel takes 4,096 with what stands before it on the host, and 255 for one part. */
const MAX_MOUNT_PATH_BYTES = 1_024;
const MAX_PATH_PART_BYTES = 255;
/** How much of a faulty name an error repeats. */
const MAX_QUOTED_CHARACTERS = 64;

/** What a set of names and values may be. */
export interface PairBounds {
  readonly maxBytes: number;
  readonly maxPairs: number;
  /** Bytes that a pair takes besides its name and its value. */
  readonly pairBytes: number;
  /** What no name, and what no value, may have in it. */
  readonly nameFault: (name: string) => string | undefined;
  readonly valueFault: (value: string) => string | undefined;
}

// eslint-disable-next-line no-control-regex -- the range is the definition of a control character
const CONTROL_PATTERN = /[\x00-\x1F\x7F]/;
/** A value may have several lines. */
// eslint-disable-next-line no-control-regex -- as above, without tab, line feed and return
const HARD_CONTROL_PATTERN = /[\x00-\x08\x0B\x0C\x0E-\x1F\x7F]/;

export const METADATA_BOUNDS: PairBounds = {
  maxBytes: MAX_METADATA_BYTES,
  maxPairs: MAX_PAIRS,
  pairBytes: 0,
  nameFault: plainNameFault,
  valueFault: (value) =>
    HARD_CONTROL_PATTERN.test(value) ? "control characters are not allowed" : undefined,
};

export const FILTER_BOUNDS: PairBounds = {
  ...METADATA_BOUNDS,
  maxBytes: MAX_FILTER_BYTES,
  maxPairs: MAX_FILTER_PAIRS,
};

export const ENVIRONMENT_BOUNDS: PairBounds = {
  maxBytes: MAX_ENVIRONMENT_BYTES,
  maxPairs: MAX_PAIRS,
  // The equals sign between them and the NUL behind them.
  pairBytes: 2,
  nameFault: (name) =>
    plainNameFault(name) ?? (name.includes("=") ? "an equals sign is not allowed" : undefined),
  valueFault: (value) => (value.includes("\0") ? "a NUL character is not allowed" : undefined),
};

function plainNameFault(name: string): string | undefined {
  if (name === "") return "must not be empty";
  return CONTROL_PATTERN.test(name) ? "control characters are not allowed" : undefined;
}

/** What is wrong with the pairs, with the bound that they exceed; undefined when nothing is. */
function findPairFault(pairs: readonly Pair[], bounds: PairBounds): string | undefined {
  const sizeFault = findSizeFault(pairs, bounds);
  if (sizeFault !== undefined) return sizeFault;
  for (const [name, value] of pairs) {
    const nameFault = halfFault(name) ?? bounds.nameFault(name);
    if (nameFault !== undefined) return `name ${quote(name)}: ${nameFault}`;
    const valueFault = halfFault(value) ?? bounds.valueFault(value);
    if (valueFault !== undefined) return `value of ${quote(name)}: ${valueFault}`;
  }
  return undefined;
}

type Pair = readonly [name: string, value: string];

/** The bound that the pairs exceed, whatever is in them. */
export function findSizeFault(pairs: readonly Pair[], bounds: PairBounds): string | undefined {
  if (pairs.length > bounds.maxPairs) {
    return `at most ${bounds.maxPairs} pairs are allowed, not ${pairs.length}`;
  }
  const bytes = pairs.reduce(
    (sum, [name, value]) =>
      sum + Buffer.byteLength(name) + Buffer.byteLength(value) + bounds.pairBytes,
    0,
  );
  if (bytes > bounds.maxBytes) {
    return `at most ${bounds.maxBytes} bytes are allowed for all names and values, not ${bytes}`;
  }
  return undefined;
}

/** Half of a surrogate pair has no bytes: it would come back as something else. */
function halfFault(text: string): string | undefined {
  return text.isWellFormed() ? undefined : "half a surrogate pair is not allowed";
}

function quote(name: string): string {
  return JSON.stringify(name.slice(0, MAX_QUOTED_CHARACTERS).toWellFormed());
}

/** An object of strings within its bounds. */
export function boundedPairs(bounds: PairBounds) {
  const description = `At most ${bounds.maxPairs} pairs and ${bounds.maxBytes} bytes in all.`;
  return z
    .unknown()
    .superRefine((value, context) => {
      // A schema of records would leave this name out without a word.
      if (typeof value === "object" && value !== null && Object.hasOwn(value, "__proto__")) {
        context.addIssue({ code: "custom", message: 'name "__proto__": is reserved' });
      }
    })
    .pipe(z.record(z.string(), z.string()))
    .superRefine((record, context) => {
      const fault = findPairFault(Object.entries(record), bounds);
      if (fault !== undefined) context.addIssue({ code: "custom", message: fault });
    })
    .meta({ type: "object", additionalProperties: { type: "string" }, description });
}

/** A list of names and values, as tools take it, within the same bounds. */
export function checkPairs(bounds: PairBounds) {
  return (
    pairs: readonly { readonly name: string; readonly value: string }[],
    context: z.RefinementCtx,
  ): void => {
    const fault = findPairFault(
      pairs.map(({ name, value }) => [name, value] as const),
      bounds,
    );
    if (fault !== undefined) context.addIssue({ code: "custom", message: fault });
  };
}

const MAX_INT32 = 2_147_483_647;

/** A whole number in a query. */
export function wholeNumber(min: number, max: number = MAX_INT32) {
  return z
    .string()
    .refine((text) => /^[0-9]{1,16}$/.test(text), "expected a whole number")
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .meta({ type: "integer", minimum: min, maximum: max });
}

/** A list in a query, joined by commas or with its name before each item. */
export const queryList = z
  .preprocess((given) => (Array.isArray(given) ? given.join(",") : given), z.string())
  .transform((text) => text.split(","));

/** A text that names something: of so many characters, all of them whole. */
export function boundedText(maxCharacters: number) {
  return z
    .string()
    .max(maxCharacters)
    .refine((text) => text.isWellFormed(), "half a surrogate pair is not allowed");
}

/** The path of a mount: what the kernel takes below the root of a sandbox. */
export function mountPath() {
  return z.string().superRefine((path, context) => {
    const fault = findPathFault(path);
    if (fault !== undefined) context.addIssue({ code: "custom", message: fault });
  });
}

function findPathFault(path: string): string | undefined {
  if (Buffer.byteLength(path) > MAX_MOUNT_PATH_BYTES) {
    return `at most ${MAX_MOUNT_PATH_BYTES} bytes are allowed`;
  }
  if (CONTROL_PATTERN.test(path)) return "control characters are not allowed";
  const isLong = path.split("/").some((part) => Buffer.byteLength(part) > MAX_PATH_PART_BYTES);
  if (isLong) return `at most ${MAX_PATH_PART_BYTES} bytes are allowed between two slashes`;
  return halfFault(path);
}
