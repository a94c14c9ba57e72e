/** What the leading front observes from look to look, and since when. */

export interface Observations {
  /** Whether this was observed in every look for so long. */
  lasts(subject: string, ms: number): boolean;
  /** Ends a look: what was not observed in it begins anew. */
  forget(): void;
}

/** With a share of the usual times, for tests that wait for them. */
export function createObservations(share = 1): Observations {
  let before = new Map<string, number>();
  let present = new Map<string, number>();
  return {
    lasts(subject, ms) {
      const nowMs = performance.now();
      const atMs = before.get(subject) ?? nowMs;
      present.set(subject, atMs);
      return nowMs - atMs >= ms * share;
    },
    forget() {
      before = present;
      present = new Map();
    },
  };
}
