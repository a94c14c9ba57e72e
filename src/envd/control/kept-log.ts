/**
 * GET /log on the host's side: the log lines that the daemon still keeps, for a reader that does not
 * follow. POST /forget: what was done so far was no client's.
 */

import { DAEMON_ID_HEADER } from "../../wire/headers.ts";
import { sendStatus } from "../exchange.ts";
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

export async function forgetLog({ daemon, response }: ControlExchange): Promise<void> {
  daemon.log.forget();
  sendStatus(response, 204);
}
