/**
 * GET /logs: the daemon's log lines as they come, without an end. One reader at a time. A reader
 * that comes again names the daemon and the last line that it had, and misses nothing. Before /init
 * it is refused with 409: a request that waited in the queue of the listening socket while one daemon
 * ended and another one started tells the host so that the new one knows nothing of its sandbox.
 */

import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { DAEMON_ID_HEADER } from "../../wire/headers.ts";
import { sendStatus } from "../exchange.ts";
import { splitTarget } from "../server.ts";
import type { ControlExchange } from "./exchange.ts";

/** Lines of one call go together: each piece wakes the host, which waits for the call's answer. */
const GATHER_MS = 20;

/** A handler of which the newest call gets the lines; an older one ends. */
export function createLogsHandler(): (exchange: ControlExchange) => Promise<void> {
  let current: AbortController | undefined;
  return async ({ daemon, request, response }) => {
    if (!daemon.settings.isTold) {
      sendStatus(response, 409);
      return;
    }
    current?.abort();
    const reader = new AbortController();
    current = reader;
    response.once("close", () => reader.abort());
    response.writeHead(200, {
      "content-type": "application/x-ndjson",
      "cache-control": "no-store",
      [DAEMON_ID_HEADER]: daemon.log.id,
    });
    response.flushHeaders();
    try {
      let last = lastOf(request.url ?? "", daemon.log.id);
      for (let isBehind = false; ;) {
        if (!isBehind) {
          await daemon.log.after(last, reader.signal);
          await delay(GATHER_MS, undefined, { signal: reader.signal });
        }
        const lines = await daemon.log.after(last, reader.signal);
        ({ last, isBehind } = lines);
        await send(response, lines.text, reader.signal);
      }
    } catch (error) {
      if (!reader.signal.aborted) throw error;
      response.end();
    }
  };
}

/** The last line that the reader had of this daemon; 0 for none. */
function lastOf(url: string, id: string): number {
  const { query } = splitTarget(url);
  const after = query.get("after") ?? "";
  return query.get("daemon") === id && /^[0-9]{1,15}$/.test(after) ? Number(after) : 0;
}

async function send(response: ServerResponse, lines: string, signal: AbortSignal): Promise<void> {
  if (!response.write(lines)) await once(response, "drain", { signal });
}

/** GET /log: the lines that the daemon still keeps, for a reader that does not follow. */
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

/** POST /forget: what was done so far was no client's. */
export async function forgetLog({ daemon, response }: ControlExchange): Promise<void> {
  daemon.log.forget();
  sendStatus(response, 204);
}
