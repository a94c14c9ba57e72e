/** The growing delay between the attempts of work that fails again and again. */

export interface Backoff {
  /** The delay before the next attempt in milliseconds; the one after it is twice as long. */
  next(): number;
  /** Begins again with the first delay, after a success. */
  reset(): void;
}

/** Delays that double from the first one up to the longest one. */
export function createBackoff(firstMs: number, maxMs: number): Backoff {
  let nextMs = firstMs;
  return {
    next() {
      const delayMs = nextMs;
      nextMs = Math.min(nextMs * 2, maxMs);
      return delayMs;
    },
    reset() {
      nextMs = firstMs;
    },
  };
}
