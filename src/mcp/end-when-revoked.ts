/** Ends a reply whose key is revoked while it is open: streams can last for hours. */

import type { ServerResponse } from "node:http";
import type { Clock } from "../common/clock.ts";

/** Keys of a cluster are read so often. */
const CHECK_MS = 5_000;

/** Asks again and again until the reply is closed. */
export function endWhenRevoked(
  response: ServerResponse,
  clock: Clock,
  isAllowed: () => Promise<boolean>,
): void {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  if (!response.closed) void watch();

  async function watch(): Promise<void> {
    try {
      do await clock.sleep(CHECK_MS, closed.signal);
      while (await isAllowed());
    } catch {
      // The reply is over.
      if (closed.signal.aborted) return;
    }
    response.destroy();
  }
}
