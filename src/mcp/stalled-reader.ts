/** Ends a reply that its client does not read: what is sent meanwhile would be held for it. */

import type { ServerResponse } from "node:http";
import type { Clock } from "../common/clock.ts";

/** A client that takes nothing for longer than this has lost the connection, or wants no reply. */
const MAX_STALL_MS = 5 * 60_000;
const CHECK_MS = 30_000;

/** Watches a reply until it is closed. */
export function endWhenStalled(response: ServerResponse, clock: Clock): void {
  const closed = new AbortController();
  let readAtMs = clock.elapsed();
  response.on("drain", () => {
    readAtMs = clock.elapsed();
  });
  response.once("close", () => closed.abort());
  if (!response.closed) void watch();

  async function watch(): Promise<void> {
    for (;;) {
      try {
        await clock.sleep(CHECK_MS, closed.signal);
      } catch {
        // The reply is over.
        return;
      }
      if (!response.writableNeedDrain) readAtMs = clock.elapsed();
      if (clock.elapsed() - readAtMs > MAX_STALL_MS) response.destroy();
    }
  }
}
