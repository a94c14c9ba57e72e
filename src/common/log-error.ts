/** Errors as they stand in log lines: who, what and where, bounded, escaped and without keys. */

import { SandboxError } from "./errors.ts";
import { quoteUntrusted } from "./quote.ts";

/** Enough to find the place; what lies deeper is the platform's. */
const MAX_FRAMES = 16;
const MAX_FRAME_CHARACTERS = 256;
const MAX_CAUSES = 4;
/** Keys of the platform, wherever a text repeats one. */
const KEY_PATTERN = /e2b_[0-9a-f]{40}/gi;

export interface LoggedError {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly hint?: string;
  /** Missing for failures that are foreseen: those of ours that are not `internal`. */
  readonly stack?: string;
  readonly causes?: readonly Omit<LoggedError, "stack" | "causes">[];
}

/** The form of anything that was thrown; further properties of an error are left out. */
export function describeError(error: unknown): LoggedError {
  const stack = stackOf(error);
  const causes = causesOf(error);
  return {
    ...describe(error),
    ...(stack !== undefined && { stack }),
    ...(causes.length > 0 && { causes: causes.map((cause) => describe(cause)) }),
  };
}

function describe(error: unknown): Omit<LoggedError, "stack" | "causes"> {
  if (!(error instanceof Error)) return { type: typeof error, message: clean(toText(error)) };
  const code = "code" in error && typeof error.code === "string" ? clean(error.code) : undefined;
  const hint = error instanceof SandboxError ? error.hint : undefined;
  return {
    type: clean(error.name),
    message: clean(error.message),
    ...(code !== undefined && { code }),
    ...(hint !== undefined && { hint: clean(hint) }),
  };
}

/** Name, message and frames. A message can have lines that look like frames: it is not split. */
function stackOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || typeof error.stack !== "string") return undefined;
  if (error instanceof SandboxError && error.code !== "internal") return undefined;
  const head = `${error.name}: ${error.message}`;
  const rest = error.stack.startsWith(head) ? error.stack.slice(head.length) : error.stack;
  const frames = rest.split("\n").filter((line) => /^ {4}at /.test(line));
  const shown = frames.slice(0, MAX_FRAMES).map((frame) => {
    return clean(frame.slice(0, MAX_FRAME_CHARACTERS));
  });
  return [`${clean(error.name)}: ${clean(error.message)}`, ...shown].join("\n");
}

function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  let current = error instanceof Error ? error.cause : undefined;
  while (current instanceof Error && causes.length < MAX_CAUSES) {
    causes.push(current);
    current = current.cause;
  }
  return causes;
}

function toText(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    // Anything can be thrown, also what cannot be made a text.
    return "no text";
  }
}

function clean(text: string): string {
  return quoteUntrusted(text.replaceAll(KEY_PATTERN, "e2b_[redacted]"));
}
