/**
 * Turns of the event loop for those who read a stream. Bytes that are there are read without one: a
 * peer that sends many small messages would keep the whole program busy with them, for seconds.
 */

import { createStartLimiter } from "./start-limiter.ts";

/** What all readers take together before others have their turn. */
const MAX_SHARE_MS = 10;

/** Readers that used up their share go on one after the other. */
const begin = createStartLimiter(1);
let waiting = 0;

/** For one reader: what it awaits before its next message; undefined while it may go on at once. */
export function createLoopTurns(): () => Promise<void> | undefined {
  let beganAtMs = performance.now();
  const wait = async (): Promise<void> => {
    waiting += 1;
    await begin();
    waiting -= 1;
    beganAtMs = performance.now();
  };
  return () => (performance.now() - beganAtMs < MAX_SHARE_MS / (1 + waiting) ? undefined : wait());
}

/** The chunks of a stream, of which those that are there at once come as one. */
export async function* inLoopTurns(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  const turns = createLoopTurns();
  for await (const chunk of stream) {
    await turns();
    yield chunk;
  }
}
