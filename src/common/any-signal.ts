/** One signal for several. */

/** What each signal of this module was made of. */
const sources = new WeakMap<AbortSignal, readonly AbortSignal[]>();

/**
 * As `AbortSignal.any`, made of the signals that fire by themselves: until 24.15 Node may collect one
 * that was made of another such signal, with its listeners, and it never fires.
 */
export function anySignal(signals: readonly AbortSignal[]): AbortSignal {
  const roots = signals.flatMap((signal) => sources.get(signal) ?? [signal]);
  const signal = AbortSignal.any(roots);
  sources.set(signal, roots);
  return signal;
}
