/**
 * What a request that fails costs: an error of its handler, thrown anywhere in it, ends that request
 * alone, and bytes that are no request get a status and no more.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { endConnection } from "../common/end-connection.ts";
import { sendJson } from "../common/http.ts";
import type { Logger } from "../common/log.ts";
import { bindEmitter, failUntilClosed, type Operation, runOperation } from "../common/operation.ts";
import { retryHeaders } from "../wire/retry.ts";

/** Runs the work for a request; what it fails by is logged, and its client gets a fixed text. */
export function runRequest(
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
  log: Logger,
  work: () => Promise<void>,
): void {
  const operation: Operation = { name: "http.request", fail: failUntilClosed(response, refuse) };
  bindEmitter(request, operation);
  bindEmitter(response, operation);
  run(operation, log, work);
}

/** The same for an upgrade, whose connection can only be cut. */
export function runUpgrade(socket: Duplex, log: Logger, work: () => Promise<void>): void {
  const operation: Operation = {
    name: "http.upgrade",
    fail: failUntilClosed(socket, (open) => {
      const isOpen = !open.destroyed;
      open.destroy();
      return isOpen;
    }),
  };
  bindEmitter(socket, operation);
  run(operation, log, work);
}

function run(operation: Operation, log: Logger, work: () => Promise<void>): void {
  // Errors of every kind end here, also those that are thrown before anything is waited for.
  runOperation(operation, async () => work()).catch((error: unknown) => {
    log.error({ op: operation.name, err: error }, "request failed");
    operation.fail(error);
  });
}

const STATUS = 500;
const BODY = { code: STATUS, message: "internal error", error_code: "internal_server_error" };

/** False when the client has its whole answer. A reply that has begun can only be cut. */
function refuse(response: ServerResponse): boolean {
  if (response.writableEnded || response.destroyed) return false;
  if (response.headersSent) response.destroy();
  else {
    // What the handler has half done to the connection is not known.
    const headers = { connection: "close", ...retryHeaders(STATUS) };
    sendJson(response, STATUS, { body: BODY, headers });
  }
  return true;
}

const LATE = "ERR_HTTP_REQUEST_TIMEOUT";
const STATUSES: Readonly<Record<string, string>> = {
  [LATE]: "408 Request Timeout",
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
};

/** What is no HTTP gets a status and no more; `latest` is the reply to the request before it. */
export function refuseBroken(
  error: Error,
  socket: Duplex,
  latest: ServerResponse | undefined,
): void {
  const code = "code" in error ? String(error.code) : "";
  // Of a connection that was opened ahead, the first request would read a status as its own.
  const isUnused = code === LATE && "bytesRead" in socket && socket.bytesRead === 0;
  if (isUnused || !socket.writable) {
    socket.destroy();
    return;
  }
  if (latest?.headersSent === true && !latest.writableFinished) {
    // A second head within a reply would be read as a part of it, or as another reply.
    endConnection(socket);
    return;
  }
  const status = STATUSES[code] ?? "400 Bad Request";
  endConnection(socket, `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
}
