/** Work that goes on when the call that wants its result is cancelled. */

import { SandboxError } from "./errors.ts";

const CALL_CANCELLED = "the call was cancelled";

/**
 * The result of the work, which is not ended by the signal: its caller says what becomes of it.
 * @throws SandboxError canceled with this message as soon as the signal fires.
 */
export async function orCanceled<T>(
  work: Promise<T>,
  signal: AbortSignal,
  message = CALL_CANCELLED,
): Promise<T> {
  const { promise: cancelled, reject } = Promise.withResolvers<never>();
  const cancel = () => reject(new SandboxError("canceled", message));
  if (signal.aborted) cancel();
  else signal.addEventListener("abort", cancel, { once: true });
  try {
    return await Promise.race([work, cancelled]);
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

/** @throws SandboxError canceled with this message when the signal has fired. */
export function throwIfCanceled(signal: AbortSignal, message = CALL_CANCELLED): void {
  if (signal.aborted) throw new SandboxError("canceled", message);
}
