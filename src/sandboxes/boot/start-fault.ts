/** What a client is told of a start that failed. */

import {
  SandboxError,
  toSandboxError,
  type ErrorCode,
  type ErrorWord,
} from "../../common/errors.ts";
import { isBindFault } from "../../engine/storage/bind-paths.ts";

/** What the engine finds wrong with our own request is no fault of the client, but for mount paths. */
export function toStartFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox start");
  if (isBindFault(fault) || fault.word === "sandbox_memory_not_restorable") return fault;
  const word = START_WORDS[fault.code];
  if (!OWN_FAULTS.has(fault.code)) return word === undefined ? fault : withWord(fault, word);
  const options = { cause: fault, word: "sandbox_create_failed" } as const;
  return new SandboxError("unavailable", "sandbox could not be started", options);
}

function withWord(fault: SandboxError, word: ErrorWord): SandboxError {
  const { code, message, hint, hasSandboxPaths } = fault;
  const hinted = hint === undefined ? {} : { hint };
  return new SandboxError(code, message, { ...hinted, hasSandboxPaths, word, cause: fault });
}

/** The one resource of a start is the disk: who repeats it is refused again. */
const START_WORDS: Readonly<Partial<Record<ErrorCode, ErrorWord>>> = {
  unavailable: "sandbox_create_failed",
  deadline_exceeded: "sandbox_placement_timeout",
  resource_exhausted: "sandbox_create_refused",
};

const OWN_FAULTS: ReadonlySet<ErrorCode> = new Set([
  "already_exists",
  "failed_precondition",
  "invalid_argument",
  "not_found",
]);
