/**
 * Turns of the event loop for those who read a stream. Bytes that are there are read without one: a
 * peer that sends many small messages would keep the whole program busy with them, for seconds.
 */

import { setImmediate as nextTurn } from "node:timers/promises";

/** Of all readers together. */
const MAX_TURN_MS = 10;

/** How many readers have used up their share and wait. */
let waiting = 0;

/** For one reader: what it awaits before its next message; undefined while it may go on at once. */
export function createTurns(): () => Promise<void> | undefined {
  let beganAtMs = performance.now();
  const wait = async (): Promise<void> => {
    waiting += 1;
    await nextTurn();
    waiting -= 1;
    beganAtMs = performance.now();
  };
  return () => (performance.now() - beganAtMs < MAX_TURN_MS / (1 + waiting) ? undefined : wait());
}
