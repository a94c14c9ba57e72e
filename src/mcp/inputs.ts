/** Fields that several tools share. Each call makes a schema of its own: schemas are listed flat. */

import { SandboxError } from "../common/errors.ts";
import { z } from "../common/schema.ts";
import { checkPairs, type PairBounds } from "../wire/bounds.ts";

const MAX_PATH_CHARACTERS = 4_096;
const MAX_PAIRS = 100;
const MAX_VALUE_CHARACTERS = 32_768;

export function sandboxIdInput() {
  return z
    .string()
    .max(128)
    .regex(/^[a-z0-9]+(-[a-z0-9]+)?$/)
    .describe("Id of the sandbox, from create_sandbox.");
}

const BASE64_PATTERN = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * Content as bytes.
 * @throws SandboxError invalid_argument for text that is not base64 though it should be.
 */
export function decodeContent(field: string, text: string, encoding: "utf8" | "base64"): Buffer {
  if (encoding === "base64") {
    const plain = text.replaceAll(/\s/g, "");
    // A last group of one character stands for no whole byte.
    if (!BASE64_PATTERN.test(plain) || plain.replace(/=+$/, "").length % 4 === 1) {
      const hint = "Encode it again, or send it as it is with encoding=utf8.";
      throw new SandboxError("invalid_argument", `${field} is not base64`, { hint });
    }
  }
  return Buffer.from(text, encoding);
}

/** A path is never empty: on the wire an empty one would mean the home directory. */
export function pathInput(description: string) {
  return z
    .string()
    .min(1)
    .max(MAX_PATH_CHARACTERS)
    .refine((path) => !path.includes("\0"), "no path can hold a NUL character")
    .describe(description);
}

export function userInput() {
  return z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe("User in the sandbox, such as root; default: user.");
}

/** Names and values as a list, because a record has no portable schema. */
export function pairsInput(description: string, bounds: PairBounds) {
  const pair = z.strictObject({
    name: z.string().min(1).max(256).describe("Name."),
    value: z.string().max(MAX_VALUE_CHARACTERS).describe("Value."),
  });
  const pairs = z.array(pair).max(MAX_PAIRS).superRefine(checkPairs(bounds));
  return pairs.optional().describe(description);
}

/** Pairs as the wire has them. */
export function toRecord(
  pairs: readonly { readonly name: string; readonly value: string }[] | undefined,
): Record<string, string> {
  return Object.fromEntries((pairs ?? []).map(({ name, value }) => [name, value]));
}

export function processIdInput() {
  return z
    .string()
    .max(16)
    .regex(/^p_[1-9][0-9]{0,9}$/)
    .describe("Id of the process, from run_process, such as p_42.");
}

/** The longest wait of one call: hosts give up after a minute. */
const MAX_WAIT_SECONDS = 50;

export function waitInput(seconds: number, description: string) {
  return z.int().min(0).max(MAX_WAIT_SECONDS).default(seconds).describe(description);
}

export function optionalWaitInput(description: string) {
  return z.int().min(0).max(MAX_WAIT_SECONDS).optional().describe(description);
}

/** A day. */
export const MAX_TIMEOUT_SECONDS = 86_400;

export function lifetimeInput() {
  return z
    .int()
    .min(1)
    .max(MAX_TIMEOUT_SECONDS)
    .default(300)
    .describe("Seconds until its timeout, which ends or pauses it.");
}

/** The kernel holds more, but no line of a reader is longer. */
const MAX_TERMINAL_SIDE = 1_000;

export function terminalSideInput(description: string) {
  return z.int().min(1).max(MAX_TERMINAL_SIDE).optional().describe(description);
}
