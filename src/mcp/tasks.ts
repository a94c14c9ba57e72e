/** Work of calls that goes on behind their replies, and that the end of the server waits for. */

import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";

export interface Tasks {
  track(work: Promise<void>): void;
  /** Resolves when all have ended, or after a bounded time: one that does not end is left. */
  ended(): Promise<void>;
}

/** A cancelled create has a second for its answer, and one for the kill of its sandbox. */
const MAX_WAIT_MS = 2_000;

export function createTasks({
  clock,
  log,
}: {
  readonly clock: Clock;
  readonly log: Logger;
}): Tasks {
  const tasks = new Set<Promise<void>>();

  async function run(work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      log.warn({ op: "mcp.task", err: error }, "task failed");
    }
  }

  async function allEnded(): Promise<void> {
    // Calls that end now leave their work in this turn.
    await new Promise(setImmediate);
    while (tasks.size > 0) await Promise.all(tasks);
  }

  return {
    track(work) {
      const task = run(work).then(() => void tasks.delete(task));
      tasks.add(task);
    },
    async ended() {
      const limit = new AbortController();
      const late = clock.sleep(MAX_WAIT_MS, limit.signal).catch(() => undefined);
      await Promise.race([allEnded(), late]);
      limit.abort();
    },
  };
}
