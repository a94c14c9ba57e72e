/** Ends a reply while it is open: that of a client that does not read, or whose key was revoked. */

import type { ServerResponse } from "node:http";
import { everyInterval, type Clock } from "../../common/clock.ts";

/** A client that takes nothing for longer than this has lost the connection, or wants no reply. */
const MAX_STALL_MS = 5 * 60_000;
const STALL_CHECK_MS = 30_000;
/** Keys of a cluster are read so often. */
const KEY_CHECK_MS = 5_000;

/** What is sent to a client that does not read would be held for it. */
export function endWhenStalled(response: ServerResponse, clock: Clock): void {
  let readAtMs = clock.elapsed();
  response.on("drain", () => {
    readAtMs = clock.elapsed();
  });
  void watch();

  async function watch(): Promise<void> {
    for await (const _ of everyInterval(clock, STALL_CHECK_MS, closeSignal(response))) {
      if (!response.writableNeedDrain) readAtMs = clock.elapsed();
      if (clock.elapsed() - readAtMs > MAX_STALL_MS) response.destroy();
    }
  }
}

/** Asks again and again until the reply is closed: streams can last for hours. */
export function endWhenRevoked(
  response: ServerResponse,
  clock: Clock,
  isAllowed: () => Promise<boolean>,
): void {
  const closed = closeSignal(response);
  void watch();

  async function watch(): Promise<void> {
    try {
      for await (const _ of everyInterval(clock, KEY_CHECK_MS, closed)) {
        if (!(await isAllowed())) break;
      }
    } catch {
      // As a key that is not allowed.
    }
    if (!closed.aborted) response.destroy();
  }
}

function closeSignal(response: ServerResponse): AbortSignal {
  const closed = new AbortController();
  if (response.closed) closed.abort();
  else response.once("close", () => closed.abort());
  return closed.signal;
}
