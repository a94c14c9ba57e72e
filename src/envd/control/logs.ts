/** GET /logs: the daemon's log lines as they come, without an end. One reader at a time. */

import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { ControlExchange } from "./exchange.ts";

/** A handler of which the newest call gets the lines; an older one ends. */
export function createLogsHandler(): (exchange: ControlExchange) => Promise<void> {
  let current: AbortController | undefined;
  return async ({ daemon, response }) => {
    current?.abort();
    const reader = new AbortController();
    current = reader;
    response.once("close", () => reader.abort());
    response.writeHead(200, {
      "content-type": "application/x-ndjson",
      "cache-control": "no-store",
    });
    response.flushHeaders();
    try {
      for (;;) await send(response, await daemon.log.take(reader.signal), reader.signal);
    } catch (error) {
      if (!reader.signal.aborted) throw error;
      response.end();
    }
  };
}

async function send(response: ServerResponse, lines: string, signal: AbortSignal): Promise<void> {
  if (!response.write(lines)) await once(response, "drain", { signal });
}
