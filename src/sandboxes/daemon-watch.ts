/**
 * Finds a daemon that is stopped, as root inside can do by a signal, while calls wait for it: it takes
 * connections still, since the kernel does so for it, and never answers. A daemon that is only busy
 * with a long call answers its host beside it.
 */

import { SandboxError } from "../common/errors.ts";
import { MESSAGES } from "../wire/messages.ts";

/** So long after the first call that waits one question is asked for all that wait then. */
const PATIENCE_MS = 2_000;
/** A daemon that does not answer its host within this time is taken for stopped. */
const SILENCE_MS = 8_000;

/** Ends a wait. */
type Stop = () => void;

export interface DaemonWatch {
  /**
   * A call waits for its reply from now on; the function that it returns is called when that has
   * begun, or the call is over. `onSilence` is called at most once, and not after that.
   */
  wait(onSilence: (error: SandboxError) => void): Stop;
}

export interface DaemonWatchOptions {
  /** Resolves when the daemon has answered its host; rejects when the signal fires first. */
  ask(signal: AbortSignal): Promise<void>;
  readonly patienceMs?: number;
  readonly silenceMs?: number;
}

/** Nothing is asked while nobody waits. */
export function createDaemonWatch(options: DaemonWatchOptions): DaemonWatch {
  const { patienceMs = PATIENCE_MS, silenceMs = SILENCE_MS } = options;
  const waiting = new Set<(error: SandboxError) => void>();
  let timer: NodeJS.Timeout | undefined;

  /** The one timer: it runs while somebody waits, or a question is under way. */
  function schedule(): void {
    timer = setTimeout(() => void look(), patienceMs).unref();
  }

  /** Never rejects. Silence is that of the daemon: calls that came meanwhile are told with the others. */
  async function look(): Promise<void> {
    if (waiting.size > 0 && (await isSilent())) {
      const error = new SandboxError("deadline_exceeded", MESSAGES.daemonSilent);
      for (const one of waiting) if (waiting.delete(one)) one(error);
    }
    timer = undefined;
    if (waiting.size > 0) schedule();
  }

  async function isSilent(): Promise<boolean> {
    const late = AbortSignal.timeout(silenceMs);
    try {
      await options.ask(late);
      return false;
    } catch {
      // A daemon that starts anew breaks the connection; it is asked again.
      return late.aborted;
    }
  }

  return {
    wait(onSilence) {
      // Each wait is its own, also of one and the same function.
      const one = (error: SandboxError) => onSilence(error);
      waiting.add(one);
      if (timer === undefined) schedule();
      return () => void waiting.delete(one);
    },
  };
}
