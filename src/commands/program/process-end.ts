/** What ends a server process: stop signals, and more uncaught errors than it can survive. */

import { isatty } from "node:tty";
import type { Logger } from "../../common/log.ts";
import { operationOf } from "../../common/operation.ts";
import { catchUncaught } from "../../common/uncaught.ts";

const STOP_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const EXIT_SIGNAL_BASE = 128;
const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

const STANDARD_STREAMS = [0, 1, 2];

type StopName = (typeof STOP_SIGNALS)[number];

/** Fires at the first stop signal. Disposing gives the signals back to their defaults. */
export interface StopSignals extends Disposable {
  readonly signal: AbortSignal;
  /** The name of that signal; undefined before it. */
  received(): StopName | undefined;
}

/** @param options.hangsUp - Whether SIGHUP is one of them; without effect otherwise. */
export function listenForStopSignals({ hangsUp = true } = {}): StopSignals {
  const controller = new AbortController();
  let received: StopName | undefined;
  const onSignal = (name: StopName): void => {
    if (name === "SIGHUP" && !hangsUp) return;
    if (controller.signal.aborted) process.exit(exitCodeOf(name));
    received = name;
    controller.abort();
  };
  for (const name of STOP_SIGNALS) process.on(name, onSignal);
  return {
    signal: controller.signal,
    received: () => received,
    [Symbol.dispose]() {
      for (const name of STOP_SIGNALS) process.off(name, onSignal);
    },
  };
}

/**
 * Whether a program goes with the terminal that it was started at. One without a terminal at any of
 * its standard streams was detached from it: of `nohup`, Node.js undoes what the kernel was asked for.
 */
export function hasTerminal(): boolean {
  return STANDARD_STREAMS.some((descriptor) => isatty(descriptor));
}

function exitCodeOf(name: StopName): number {
  return EXIT_SIGNAL_BASE + SIGNAL_NUMBERS[name];
}

/**
 * Runs what a command does until it is done or told to stop. What it started has ended by then, and
 * the exit code tells a shell by which signal. A second signal does not wait for that.
 */
export async function untilStopped(
  work: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  using stops = listenForStopSignals();
  try {
    return await work(stops.signal);
  } catch (error) {
    const name = stops.received();
    if (name === undefined) throw error;
    process.stderr.write(`sandbox-mcp: stopped by ${name}\n`);
    return exitCodeOf(name);
  }
}

/** An orderly end that takes longer than this is cut short. */
const END_MS = 20_000;

/** EX_SOFTWARE of sysexits. */
export const EXIT_BROKEN = 70;

export interface LastResort extends Disposable {
  /** Fires when too much went wrong: the program ends in an orderly way, with `EXIT_BROKEN`. */
  readonly signal: AbortSignal;
}

/** Handles uncaught errors until it is disposed. */
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
