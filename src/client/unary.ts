/** One unary RPC: its time limit, its repeats, and a new token where the old one was refused. */

import { anySignal } from "../common/any-signal.ts";
import { SandboxError } from "../common/errors.ts";
import { signalAfter } from "../common/late-signal.ts";
import { userHeader, withAccess, type AccessSource, type CallOptions } from "./access.ts";
import { fromRpcError } from "./rpc.ts";

export interface UnaryWork {
  readonly source: AccessSource;
  readonly options: CallOptions;
  /** What is asked for, as the beginning of an error message. */
  readonly subject: string;
  readonly isIdempotent: boolean;
  /** Whether only the caller's signal ends the wait for the reply. */
  readonly isUnlimited?: boolean;
}

export interface UnaryCall {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** As long as the official clients wait for a unary reply. */
const UNARY_TIMEOUT_MS = 60_000;
/** A keep-alive connection can close under a request; the second one meets a fresh connection. */
const MAX_ATTEMPTS = 2;

/**
 * The reply of a unary RPC.
 * @throws SandboxError with the daemon's code, or the reason for which there was no reply.
 */
export async function callUnary<T>(
  work: UnaryWork,
  call: (settings: UnaryCall) => Promise<T>,
): Promise<T> {
  return withAccess(work.source, work.options, () => repeatUnary(work, call));
}

async function repeatUnary<T>(
  work: UnaryWork,
  call: (settings: UnaryCall) => Promise<T>,
): Promise<T> {
  const attempts = work.isIdempotent ? MAX_ATTEMPTS : 1;
  // One for all attempts: a caller waits no longer for two of them.
  const late = work.isUnlimited === true ? undefined : signalAfter(UNARY_TIMEOUT_MS);
  const { signal: ended } = work.options;
  const signal = late === undefined ? ended : anySignal([ended, late]);
  let failure: SandboxError | undefined;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    try {
      return await call({ headers: userHeader(work.options.user), signal });
    } catch (error) {
      failure =
        late?.aborted === true
          ? new SandboxError("deadline_exceeded", `${work.subject}: no reply`, { cause: error })
          : fromRpcError(error, work.subject);
    }
    if (failure.code !== "unavailable") break;
  }
  throw failure ?? new SandboxError("internal", `${work.subject}: was not attempted`);
}
