/** What the daemon does when it has nothing to do: it gives back the memory that its work took. */

/** A daemon that was not asked for anything for so long rests. */
const IDLE_MS = 1_000;

export interface Rest {
  /** A request has come; the function that it returns is called when it is over. */
  begin(): () => void;
  /** Gives memory back now. */
  now(): void;
}

/** Nothing happens where node was not started with `--expose-gc`. */
export function createRest(): Rest {
  let running = 0;
  let timer: NodeJS.Timeout | undefined;
  return {
    begin() {
      running += 1;
      clearTimeout(timer);
      return () => {
        running -= 1;
        if (running > 0) return;
        timer = setTimeout(collectGarbage, IDLE_MS);
        timer.unref();
      };
    },
    now: collectGarbage,
  };
}

function collectGarbage(): void {
  // Also what is only kept because it may be of use again.
  globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
}
