/**
 * The last resort of a server: an error that nobody caught fails the operation in which it was thrown,
 * and the process goes on. One sandbox or one request must not end the service of all others.
 */

import type { Logger } from "../common/log.ts";
import { operationOf } from "../common/operation.ts";
import { catchUncaught } from "../common/uncaught.ts";

/** An orderly end that takes longer than this is cut short. */
const END_MS = 20_000;

/** EX_SOFTWARE of sysexits. */
export const EXIT_BROKEN = 70;

export interface LastResort extends Disposable {
  /** Fires when too much went wrong: the program ends in an orderly way, with `EXIT_BROKEN`. */
  readonly signal: AbortSignal;
}

/** Catches what nobody caught, until it is disposed. */
export function startLastResort(log: Logger): LastResort {
  const broken = new AbortController();
  const uncaught = catchUncaught({
    fail: (error) => operationOf(error)?.fail(error) ?? false,
    report(error, origin) {
      const op = operationOf(error)?.name ?? "process";
      log.error({ op, origin, err: error }, "uncaught error");
    },
    giveUp(errors) {
      log.fatal({ op: "process", errors }, "too many uncaught errors: ending");
      setTimeout(() => process.exit(EXIT_BROKEN), END_MS).unref();
      broken.abort();
    },
  });
  return { signal: broken.signal, [Symbol.dispose]: () => uncaught[Symbol.dispose]() };
}
