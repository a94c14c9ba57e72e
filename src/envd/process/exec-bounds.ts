/** What the kernel takes of a program's arguments and environment, told before it refuses. */

import { SandboxError } from "../../common/errors.ts";

/** `MAX_ARG_STRLEN` of Linux: one argument, or one variable with its name, and the NUL behind it. */
const MAX_STRING_BYTES = 131_072;
/**
 * Of all arguments and variables. The kernel takes a quarter of the stack's limit, which is 2 MiB
 * as a rule; what is left is for what shells and other programs add.
 */
const MAX_TOTAL_BYTES = 1_572_864;
/** The NUL behind a string, and the pointer to it. */
const STRING_OVERHEAD_BYTES = 9;
/** How much of a name an error repeats. */
const MAX_NAME_CHARACTERS = 64;

/** @throws SandboxError invalid_argument with the string, or the sum, that is too large. */
export function requireExecutable(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): void {
  let total = 0;
  for (const [index, word] of words.entries()) {
    const bytes = Buffer.byteLength(word);
    if (bytes >= MAX_STRING_BYTES) throw tooLong(index === 0 ? "cmd" : `args ${index}`, bytes);
    total += bytes + STRING_OVERHEAD_BYTES;
  }
  for (const [name, value] of Object.entries(env)) {
    const bytes = Buffer.byteLength(name) + Buffer.byteLength(value) + 1;
    if (bytes >= MAX_STRING_BYTES) throw tooLong(`environment variable ${cut(name)}`, bytes);
    total += bytes + STRING_OVERHEAD_BYTES;
  }
  if (total <= MAX_TOTAL_BYTES) return;
  throw new SandboxError(
    "invalid_argument",
    `cmd, args and the environment of sandbox and process are ${total} bytes together, at most ${MAX_TOTAL_BYTES} are allowed`,
  );
}

/**
 * Makes sure that what a call gives can be names of an environment.
 * @throws SandboxError invalid_argument for an empty name or one with an equals sign.
 */
export function requireNames(names: readonly string[]): void {
  for (const name of names) {
    if (name !== "" && !name.includes("=")) continue;
    const reason = name === "" ? "an empty name" : `an equals sign in the name ${cut(name)}`;
    throw new SandboxError("invalid_argument", `environment has ${reason}`);
  }
}

function tooLong(subject: string, bytes: number): SandboxError {
  return new SandboxError(
    "invalid_argument",
    `${subject} has ${bytes} bytes, at most ${MAX_STRING_BYTES - 1} are allowed`,
  );
}

function cut(name: string): string {
  return JSON.stringify(name.slice(0, MAX_NAME_CHARACTERS));
}
