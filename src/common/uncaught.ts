/**
 * What a process does about uncaught errors: it goes on, unless they come so often that the
 * process itself must be broken. One peer must not end what serves all others.
 */

/** Over this time errors are counted. */
const WINDOW_MS = 60_000;
/** Errors that no operation took; with more of them in the time above the process is given up. */
const MAX_UNOWNED = 100;
/** Reports in that time, each with a stack. */
const MAX_REPORTED = 100;

export interface UncaughtOptions {
  /** Fails whatever the error belongs to; false when no caller waits for that. */
  readonly fail: (error: unknown) => boolean;
  readonly report: (error: unknown, origin: string) => void;
  /** Called once, with the number of errors. */
  readonly giveUp: (errors: number) => void;
}

/** Handles uncaught errors until it is disposed. */
export function catchUncaught({ fail, report, giveUp }: UncaughtOptions): Disposable {
  let windowEndMs = 0;
  let unowned = 0;
  let reported = 0;
  let isGivenUp = false;

  function take(error: unknown, origin: string): void {
    const nowMs = performance.now();
    if (nowMs >= windowEndMs) {
      windowEndMs = nowMs + WINDOW_MS;
      unowned = 0;
      reported = 0;
    }
    reported += 1;
    if (reported <= MAX_REPORTED) report(error, origin);
    if (!fail(error)) unowned += 1;
    if (unowned <= MAX_UNOWNED || isGivenUp) return;
    isGivenUp = true;
    giveUp(unowned);
  }

  function onError(error: unknown, origin: string): void {
    try {
      take(error, origin);
    } catch {
      // An error in here would end the process at once, whatever it is.
    }
  }

  const onRejection = (reason: unknown): void => onError(reason, "unhandledRejection");
  process.on("uncaughtException", onError);
  process.on("unhandledRejection", onRejection);
  return {
    [Symbol.dispose]() {
      process.off("uncaughtException", onError);
      process.off("unhandledRejection", onRejection);
    },
  };
}
