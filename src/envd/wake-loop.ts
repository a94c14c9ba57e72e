/**
 * Wakes the event loop once after connections have closed, in each way that it is woken by itself or by
 * a new connection.
 *
 * runsc 20240729 keeps, of each descriptor that epoll was told of, which ones were ready before and
 * after it the last time. A copy of the memory has these too, although they were closed since, and
 * they are ready there for ever: the loop of the daemon in the copy never rests. What is ready alone
 * forgets its neighbours.
 */

import { stat } from "node:fs";

/** Of no use here: a daemon has no terminal. */
const SIGNAL = "SIGWINCH";

/** Returns what is called when a connection has closed. */
export function createLoopWaker(touchListeners: () => void): () => void {
  process.on(SIGNAL, () => undefined);
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    // After all that closes in this turn.
    setImmediate(() => {
      isDue = false;
      // By the pipe for signals, by that of the threads, and by those that listen.
      process.kill(process.pid, SIGNAL);
      stat("/", () => undefined);
      touchListeners();
    });
  };
}
