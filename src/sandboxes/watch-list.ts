/** The background tasks of a registry: told together that something changed, and ended together. */

/** Looks by itself from time to time. */
interface Watch extends AsyncDisposable {
  /** Looks soon. */
  note(): void;
}

export interface WatchList extends AsyncDisposable {
  add(...watches: readonly Watch[]): void;
  note(): void;
}

export function createWatchList(): WatchList {
  const all: Watch[] = [];
  return {
    add: (...watches) => void all.push(...watches),
    note() {
      for (const watch of all) watch.note();
    },
    async [Symbol.asyncDispose]() {
      for (const watch of all) await watch[Symbol.asyncDispose]();
    },
  };
}
