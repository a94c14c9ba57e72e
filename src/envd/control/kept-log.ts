/** GET /log on the host's side: the log lines that the daemon still keeps, for a reader that does not follow. */

import { DAEMON_ID_HEADER } from "../../wire/headers.ts";
import type { ControlExchange } from "./exchange.ts";

export async function keptLog({ daemon, response }: ControlExchange): Promise<void> {
  const text = Buffer.from(daemon.log.kept());
  response.writeHead(200, {
    "content-type": "application/x-ndjson",
    "content-length": text.length,
    "cache-control": "no-store",
    [DAEMON_ID_HEADER]: daemon.log.id,
  });
  response.end(text);
}
