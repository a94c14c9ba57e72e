/** The one error class that crosses modules. Its codes are Connect's code names on every edge. */

import { firstFault } from "./error-reasons.ts";
import { shortageOf } from "./shortage.ts";

/** Every reason for which an operation can fail. */
export const ERROR_CODES = [
  "invalid_argument",
  "unauthenticated",
  "permission_denied",
  "not_found",
  "already_exists",
  "failed_precondition",
  "resource_exhausted",
  "deadline_exceeded",
  "canceled",
  "unavailable",
  "unimplemented",
  "internal",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

export interface SandboxErrorOptions {
  readonly cause?: unknown;
  /** What the caller can do about it, as one sentence. */
  readonly hint?: string;
  /** Whether paths in the message are those of a sandbox, which its owner may be told. */
  readonly hasSandboxPaths?: boolean;
  /** What happened, as a word for programs. */
  readonly word?: ErrorWord | undefined;
  /** Given where it passes by itself. */
  readonly retryAfterSeconds?: number | undefined;
}

/** Values of `error_code` on the wire, beside the numeric code. */
export type ErrorWord =
  | "sandbox_capacity_unavailable"
  | "sandbox_placement_timeout"
  | "sandbox_create_failed"
  | "sandbox_create_refused"
  | "sandbox_snapshot_guest_agent_unresponsive"
  | "sandbox_memory_not_restorable"
  | "internal_server_error"
  | "idempotency_request_mismatch"
  | "idempotency_in_progress";

/** An operation failed: a code for programs, a message for people, a hint for the next step. */
export class SandboxError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly hasSandboxPaths: boolean;
  readonly word: ErrorWord | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, options: SandboxErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.name = "SandboxError";
    this.code = code;
    this.hint = options.hint;
    this.hasSandboxPaths = options.hasSandboxPaths ?? false;
    this.word = options.word;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

export function hasErrorCode(error: unknown, code: ErrorCode): error is SandboxError {
  return error instanceof SandboxError && error.code === code;
}

const MAX_CAUSES = 8;

/** The first code of the system found on an error or its causes, such as `ENOENT`; never ours. */
export function causeCode(error: unknown): string | undefined {
  let current = firstFault(error);
  for (let depth = 0; depth < MAX_CAUSES && current instanceof Error; depth += 1) {
    if (
      !(current instanceof SandboxError) &&
      "code" in current &&
      typeof current.code === "string"
    ) {
      return current.code;
    }
    current = firstFault(current.cause);
  }
  return undefined;
}

/** Whether the first code of the system on an error or its causes is one of these, such as `ENOENT`. */
export function isCode(error: unknown, ...codes: readonly string[]): boolean {
  const code = causeCode(error);
  return code !== undefined && codes.includes(code);
}

/** Words of programs that copy, on a full disk; the last are those of tar about a part of a block. */
export const COPY_FULL_PATTERN: RegExp =
  /No space left on device|Disk quota exceeded|Wrote only \d+ of \d+ bytes/;

/** The disk of the service is full, or nearly so; the code of its cause is always ENOSPC. */
export function diskFullError(subject: string, cause?: unknown, word?: ErrorWord): SandboxError {
  const fault = Object.assign(new Error(`${subject}: no space left`, { cause }), {
    code: "ENOSPC",
  });
  return new SandboxError("resource_exhausted", fault.message, {
    cause: fault,
    hint: "delete snapshots, volumes or sandboxes, or free space on the disk of the service",
    word,
  });
}

/** What has a limit of its own is full, not the disk below it; the code of its cause is always EDQUOT. */
export function quotaError(message: string, hint: string, cause?: unknown): SandboxError {
  const fault = Object.assign(new Error(message, { cause }), { code: "EDQUOT" });
  return new SandboxError("resource_exhausted", message, { cause: fault, hint });
}

export function errorText(error: unknown): string {
  const fault = firstFault(error);
  if (!(fault instanceof Error)) return String(fault);
  return schemaFault(fault) ?? fault.message;
}

/** The message of a schema is a list in JSON over many lines: its first entry in a sentence. */
function schemaFault(error: Error): string | undefined {
  const first: unknown = "issues" in error && Array.isArray(error.issues) && error.issues[0];
  if (typeof first !== "object" || first === null || !("message" in first)) return undefined;
  const path = "path" in first && Array.isArray(first.path) ? first.path.map(String) : [];
  const place = path.length === 0 ? "" : ` at ${path.join(".")}`;
  return `not of the expected form${place}: ${String(first.message)}`;
}

const UNAVAILABLE_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ENOENT",
  "EPIPE",
  "ENOTFOUND",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "UND_ERR_SOCKET",
  "UND_ERR_CLOSED",
  "UND_ERR_DESTROYED",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/**
 * Any failure of a connection or of the system as ours: a broken or refused one and a shortage are
 * `unavailable`, an abort `canceled`, a time limit `deadline_exceeded`, anything else `internal`.
 */
export function toSandboxError(thrown: unknown, subject: string): SandboxError {
  const error = firstFault(thrown);
  if (error instanceof SandboxError) return error;
  const name = error instanceof Error ? error.name : "";
  // A socket that is not there is named by its path.
  const message = `${subject}: ${hidePaths(errorText(error))}`;
  if (name === "TimeoutError")
    return new SandboxError("deadline_exceeded", message, { cause: error });
  if (name === "AbortError") return new SandboxError("canceled", message, { cause: error });
  const shortage = shortageOf(error);
  if (shortage !== undefined) {
    const options = { cause: error, hint: shortage.hint };
    return new SandboxError("unavailable", `${subject}: ${shortage.message}`, options);
  }
  const code = causeCode(error);
  if (code !== undefined && UNAVAILABLE_CODES.has(code)) {
    return new SandboxError("unavailable", message, { cause: error });
  }
  return new SandboxError("internal", message, { cause: error });
}

const HIDDEN = "(path)";

/** Absolute paths in quotation marks, file addresses, and absolute paths up to a space. */
const QUOTED_PATTERN = /(['"`])(?:file:\/\/)?\/[^'"`]*\1/g;
const FILE_PATTERN = /\bfile:\/\/[^\s'"`]+/g;
const PLAIN_PATTERN = /(?<![\w./:-])\/[^\s'"`]*[^\s'"`:;,.)\]}]/g;
/** Below a folder of ours, also where its beginning was cut; from the first character of a word alone. */
const OWN_PATTERN =
  /(?<![^\s'"`(])[^\s'"`(]*(?:node_modules|sandbox-mcp|\.part)\/[^\s'"`]*[^\s'"`:;,.)\]}]/g;

/** The text without absolute paths; addresses of pages stay. */
export function hidePaths(text: string): string {
  return text
    .replaceAll(QUOTED_PATTERN, (_, mark: string) => mark + HIDDEN + mark)
    .replaceAll(FILE_PATTERN, HIDDEN)
    .replaceAll(PLAIN_PATTERN, HIDDEN)
    .replaceAll(OWN_PATTERN, (found) => (found.includes("://") ? found : HIDDEN));
}
