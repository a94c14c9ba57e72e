/** Hints for failed calls: the next step, in terms of the tools that are enabled. */

import { hasErrorCode, SandboxError, type ErrorCode } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import type { Suggest, ToolContext } from "../tool.ts";
import { findEndCause } from "./end-cause.ts";

export type Hints = Partial<Record<ErrorCode, string>>;

/**
 * The result of the work; a failure gets the hint for its code, unless it has one.
 * @throws SandboxError as the work did.
 */
export async function withHints<T>(work: Promise<T>, hints: Hints): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    throw hinted(error, hints[error.code]);
  }
}

/** The same error with a hint, unless it has one. */
export function hinted(error: SandboxError, hint: string | undefined): SandboxError {
  if (error.hint !== undefined || hint === undefined || hint === "") return error;
  return new SandboxError(error.code, error.message, { cause: error, hint });
}

/** The error for a sandbox that is not there, with what the service knows of its end. */
export async function goneError(
  sandboxId: string,
  { service, suggest }: Pick<ToolContext, "service" | "suggest">,
  cause: unknown,
): Promise<SandboxError> {
  const message = `sandbox ${sandboxId} does not exist (${await findEndCause(sandboxId, service)})`;
  return new SandboxError("not_found", message, { cause, hint: goneHint(suggest) });
}

function goneHint(suggest: Suggest): string {
  const list = suggest("list_sandboxes", "Call list_sandboxes to see which live.");
  const create = suggest("create_sandbox", "Call create_sandbox for a new one.");
  return sentences([list, create]);
}

/** The hint for a reached limit of running sandboxes. */
export function freeHint(suggest: Suggest): string {
  return suggest("kill_sandbox", "Free a place with kill_sandbox.");
}

/**
 * The hint for a sandbox that can start no more processes. What fills its limit may have no
 * identifier, and then nothing that would have to be started there can end it.
 */
export function processLimitHint(suggest: Suggest): string {
  const end = suggest("send_signal", "End a process with send_signal.");
  const connect = suggest(
    "connect_sandbox",
    "Where no process_id is left to end, pause_sandbox with keep_memory=false and then " +
      "connect_sandbox end all processes and keep the files.",
  );
  const copy = suggest(
    "create_sandbox",
    "Where no process_id is left to end, snapshot and create_sandbox make a sandbox with its files " +
      "alone, except with isolation gvisor.",
  );
  const restart = connect && suggest("pause_sandbox", connect);
  return sentences([end, restart || (copy && suggest("snapshot", copy))]);
}

/** The error for a sandbox that must be resumed first. */
function pausedError(
  sandboxId: string,
  suggest: Suggest,
  { cause, next = "repeat this call" }: { readonly cause?: unknown; readonly next?: string } = {},
): SandboxError {
  const hint = suggest("connect_sandbox", `Call connect_sandbox, then ${next}.`);
  const message = `sandbox ${sandboxId} is paused`;
  return new SandboxError("failed_precondition", message, { cause, hint });
}

/**
 * The sandbox exists and runs.
 * @throws SandboxError failed_precondition with the next step when it is paused
 */
export async function requireRunning(
  sandboxId: string,
  { service, signal, suggest }: Pick<ToolContext, "service" | "signal" | "suggest">,
): Promise<void> {
  const { state } = await service.control.get(sandboxId, signal);
  if (state === "paused") throw pausedError(sandboxId, suggest);
}

export function pathHints(path: string, suggest: Suggest): Hints {
  const parent = parentOf(path);
  const list = suggest(
    "list_directory",
    `Call list_directory on ${quoteName(parent)} to see what is there.`,
  );
  return { not_found: sentences(["Relative paths start in the user's home.", list]) };
}

export function processHints(suggest: Suggest): Hints {
  const list = suggest("list_processes", "Call list_processes to see what runs.");
  const gone =
    "No process of this id runs: there never was one, or it ended and its output is not kept.";
  return { not_found: sentences([gone, list || suggest("run_process", "Use run_process.")]) };
}

/** The directory that holds a path, as a caller would write it. */
export function parentOf(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  const slash = trimmed.lastIndexOf("/");
  if (slash === -1) return ".";
  return slash === 0 ? "/" : trimmed.slice(0, slash);
}

/**
 * The result of work on a route that not every service has. A service may answer 501 for it, or
 * as for any unknown path: then whether the sandbox is there, or whether the service lists sandboxes,
 * tells the two apart.
 * @throws SandboxError unimplemented with `missing` as the one sentence that is told.
 */
export async function onOptionalRoute<T>(
  work: Promise<T>,
  missing: string,
  exists: () => Promise<unknown>,
): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof SandboxError) || !MISSING_CODES.has(error.code)) throw error;
    await exists();
    throw missingError(error, missing);
  }
}

/** An operation that this service does not have. */
function missingError(error: SandboxError, hint?: string): SandboxError {
  return new SandboxError("unimplemented", error.message, {
    cause: error,
    ...(hint !== undefined && { hint }),
  });
}

const MISSING_CODES: ReadonlySet<ErrorCode> = new Set(["not_found", "unimplemented"]);

/** Sentences as one text, without those that are empty. */
function sentences(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(" ");
}

const LOOK_TIMEOUT_MS = 5_000;

type ExplainContext = Pick<ToolContext, "service" | "state" | "suggest">;

/**
 * The failure with the state of its sandbox: gone, paused or unresponsive. The service is asked for
 * the state.
 */
export async function explain(
  error: SandboxError,
  sandboxId: string | undefined,
  context: ExplainContext & { readonly next?: string },
): Promise<SandboxError> {
  if (sandboxId === undefined || !isAboutState(error)) return error;
  const { suggest, next } = context;
  const details = { cause: error, ...(next !== undefined && { next }) };
  let isRunning = false;
  try {
    const look = signalAfter(LOOK_TIMEOUT_MS);
    const detail = await context.service.control.get(sandboxId, look);
    if (detail.state === "paused") return pausedError(sandboxId, suggest, details);
    // The sandbox exists, so its service does not have the operation.
    if (error.code === "not_found") return missingError(error);
    isRunning = true;
  } catch (failure) {
    if (hasErrorCode(failure, "not_found")) {
      context.state.forget(sandboxId);
      return goneError(sandboxId, context, error);
    }
  }
  if (error.code !== "unavailable") return error;
  if (isRunning) return hinted(error, RUNS);
  const get = suggest(
    "get_sandbox",
    "Call get_sandbox before you repeat a call that changes something.",
  );
  return hinted(error, sentences(["The sandbox service did not answer.", get]));
}

/** It may have been paused during the call and resumed since. */
const RUNS =
  "The service reports that the sandbox is running now. Look at what this call has done before you " +
  "repeat one that changes something.";

/** As `explain`, for a call whose process had started: a repeat would start it a second time. */
export async function explainStarted(
  error: SandboxError,
  sandboxId: string | undefined,
  context: ExplainContext,
): Promise<SandboxError> {
  const { suggest } = context;
  const read = suggest("get_process_output", "follow the process with get_process_output");
  const next = read === "" ? "see what its process has done" : read;
  return explain(error, sandboxId, { ...context, next });
}

/** Whether a sandbox that is gone or paused can be the cause. */
function isAboutState(error: SandboxError): boolean {
  return error.hint === undefined && STATE_CODES.has(error.code);
}

const STATE_CODES: ReadonlySet<ErrorCode> = new Set([
  "unavailable",
  "not_found",
  "failed_precondition",
  "permission_denied",
]);
