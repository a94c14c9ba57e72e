/** How long a program that starts others may report nothing before it counts as hung. */

/** A loaded machine needs a tenth of it. */
const REPLY_MS = 10_000;
/** Parts of that time. Of one in which all of the sandbox was frozen no more than one part counts. */
const LOOKS = 10;

export interface SilenceOptions {
  /** How long it may report nothing; by default ten seconds. */
  readonly replyMs?: number;
  /** Whether all programs, and this one with them, were told to stop: it answers later then. */
  readonly areStopped?: () => boolean;
}

export interface SilenceWatch extends Disposable {
  /** The program has reported something. */
  reset(): void;
}

/**
 * Calls back, at every look, once nothing was reported for `replyMs`. Looks are counted, since the
 * time in which the sandbox was frozen passes for timers, too.
 */
export function watchSilence(options: SilenceOptions, onSilent: () => void): SilenceWatch {
  const { replyMs = REPLY_MS, areStopped = () => false } = options;
  let silentLooks = 0;
  const timer = setInterval(() => {
    if (areStopped()) return;
    silentLooks += 1;
    if (silentLooks >= LOOKS) onSilent();
  }, replyMs / LOOKS);
  return {
    reset() {
      silentLooks = 0;
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
