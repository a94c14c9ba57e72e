/** Whether it helps to send a refused request again: clients follow it, and wait as they are told. */

const SHOULD_RETRY_HEADER = "should-retry";
const RETRY_AFTER_HEADER = "retry-after";
const MIN_REFUSAL = 400;

/**
 * The refusals that pass by themselves: at capacity, and a service that starts or ends. Every other
 * one is the same the next time: a sandbox that is gone (502), a full disk (507), a daemon that is
 * silent (504).
 */
const PASSING: ReadonlySet<number> = new Set([429, 503]);

/** Headers of a reply with this status; a time to wait means that waiting helps. */
export function retryHeaders(
  status: number,
  retryAfterSeconds?: number,
): Readonly<Record<string, string>> {
  if (status < MIN_REFUSAL) return {};
  const helps = retryAfterSeconds !== undefined || PASSING.has(status);
  return {
    [SHOULD_RETRY_HEADER]: String(helps),
    ...(retryAfterSeconds !== undefined && { [RETRY_AFTER_HEADER]: String(retryAfterSeconds) }),
  };
}
