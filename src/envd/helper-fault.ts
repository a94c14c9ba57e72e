/** A program of the daemon that the sandbox's own limits keep from starting. */

import type { Readable, Writable } from "node:stream";
import { isCode, SandboxError } from "../common/errors.ts";
import { errnoText } from "./errno.ts";

/** Failures to start a program for which the sandbox's own limits are the reason. */
const EXHAUSTED: ReadonlySet<string> = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "ENOSPC"]);

/** Of a child; Node makes none where no descriptor is left, and its error follows. */
export interface HelperStreams {
  readonly stdin: Writable | undefined;
  readonly stdout: Readable | undefined;
}

export function isExhausted(error: unknown): boolean {
  return isCode(error, ...EXHAUSTED);
}

/** The fault for callers that need the program; undefined where another start may succeed. */
export function helperFault(name: string, error: unknown): SandboxError | undefined {
  if (!isExhausted(error)) return undefined;
  const message = `error starting the ${name}: ${errnoText(error)}`;
  return new SandboxError("internal", message, { cause: error });
}
