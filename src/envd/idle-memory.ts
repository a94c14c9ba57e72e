/** What the daemon does when it has nothing to do: it gives back the memory that its work took. */

/** A daemon that was not asked for anything for so long rests. */
const IDLE_MS = 1_000;

export interface IdleMemory {
  /** A request has come; the function that it returns is called when it is over. */
  begin(): () => void;
  /** The same for a question that takes no memory: what gave its memory back has none to give. */
  beginQuestion(): () => void;
  /** Gives memory back now. */
  now(): void;
}

/** What a daemon does between its calls. */
export function createIdleMemory(): IdleMemory {
  let running = 0;
  let hasWorked = true;
  let timer: NodeJS.Timeout | undefined;
  return {
    begin() {
      hasWorked = true;
      return hold();
    },
    beginQuestion: hold,
    now,
  };

  function hold(): () => void {
    running += 1;
    clearTimeout(timer);
    return () => {
      running -= 1;
      if (running === 0 && hasWorked) wait();
    };
  }

  function now(): void {
    hasWorked = false;
    collectGarbage();
  }

  function wait(): void {
    const dueMs = performance.now() + IDLE_MS;
    timer = setTimeout(() => {
      // So late only after a freeze: the service that thawed it waits for an answer.
      if (performance.now() > dueMs + IDLE_MS) wait();
      else now();
    }, IDLE_MS);
    timer.unref();
  }
}

/**
 * Node is not started with `--expose-gc`: under that flag it takes none of its own modules as they
 * were compiled with it, which is 20 ms of work at each start. A context that is made while the flag
 * is set has the function; neither is kept.
 */
function collectGarbage(): void {
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  const { runInNewContext } = process.getBuiltinModule("node:vm");
  setFlagsFromString("--expose-gc");
  // `last-resort`: also what is only kept because it may be of use again.
  runInNewContext(`gc({ type: "major", execution: "sync", flavor: "last-resort" })`);
  setFlagsFromString("--no-expose-gc");
}
