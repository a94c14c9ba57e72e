/** What the leading front observes from look to look, and since when. */

export interface Observations {
  /** Whether this was observed in every look for so long. */
  lasts(subject: string, ms: number): boolean;
  /** Ends a look: what was not observed in it begins anew. */
  forget(): void;
}

export function createObservations(): Observations {
  let before = new Map<string, number>();
  let present = new Map<string, number>();
  return {
    lasts(subject, ms) {
      const nowMs = performance.now();
      const atMs = before.get(subject) ?? nowMs;
      present.set(subject, atMs);
      return nowMs - atMs >= ms;
    },
    forget() {
      before = present;
      present = new Map();
    },
  };
}
