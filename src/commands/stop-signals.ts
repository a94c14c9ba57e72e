/** The signals that ask the program to end; a second one ends it at once. */

const STOP_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const EXIT_SIGNAL_BASE = 128;
const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

/** Fires at the first stop signal. Disposing gives the signals back to their defaults. */
export interface StopSignals extends Disposable {
  readonly signal: AbortSignal;
}

export function listenForStopSignals(): StopSignals {
  const controller = new AbortController();
  const onSignal = (name: (typeof STOP_SIGNALS)[number]): void => {
    if (controller.signal.aborted) process.exit(EXIT_SIGNAL_BASE + SIGNAL_NUMBERS[name]);
    controller.abort();
  };
  for (const name of STOP_SIGNALS) process.on(name, onSignal);
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      for (const name of STOP_SIGNALS) process.off(name, onSignal);
    },
  };
}
