/** Work that goes on when the call that wants its result is cancelled. */

import { SandboxError } from "../common/errors.ts";

/**
 * The result of the work, which is not ended by the signal: its caller says what becomes of it.
 * @throws SandboxError canceled as soon as the signal fires.
 */
export async function orCanceled<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: cancelled, reject } = Promise.withResolvers<never>();
  const cancel = () => reject(canceledError());
  if (signal.aborted) cancel();
  else signal.addEventListener("abort", cancel, { once: true });
  try {
    return await Promise.race([work, cancelled]);
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

/** @throws SandboxError canceled when the signal has fired. */
export function throwIfCanceled(signal: AbortSignal): void {
  if (signal.aborted) throw canceledError();
}

function canceledError(): SandboxError {
  return new SandboxError("canceled", "the call was cancelled");
}
