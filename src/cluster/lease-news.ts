/** When news of the Leases of fronts came, by the watch of one front. */

export interface LeaseNews {
  /** A Lease was changed, or is gone. */
  note(name: string, isThere: boolean): void;
  names(): Iterable<string>;
  /** For how long nothing came of a front while the watch told everything; undefined without a Lease. */
  silenceOf(name: string): number | undefined;
  /** For how long the watch has told nothing at all. */
  deafForMs(): number;
}

/**
 * The own Lease changes all the time: a watch that does not tell so is silent about all of them, and what
 * it did not tell counts against no front. Clocks of fronts may differ: what counts is when news came here.
 * @param gapMs of silence, after which all have that time anew
 */
export function createLeaseNews(own: string, known: Iterable<string>, gapMs: number): LeaseNews {
  let toldAtMs = performance.now();
  let toldSinceMs = toldAtMs;
  const seen = new Map<string, number>([...known].map((name) => [name, toldAtMs]));
  return {
    note(name, isThere) {
      const nowMs = performance.now();
      if (isThere) seen.set(name, nowMs);
      else seen.delete(name);
      if (name !== own) return;
      if (nowMs - toldAtMs >= gapMs) toldSinceMs = nowMs;
      toldAtMs = nowMs;
    },
    names: () => seen.keys(),
    silenceOf(name) {
      const atMs = seen.get(name);
      return atMs === undefined ? undefined : toldAtMs - Math.max(atMs, toldSinceMs);
    },
    deafForMs: () => performance.now() - toldAtMs,
  };
}
