/** The answer to bytes that are no request. */

import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

const HEADER_OVERFLOW = "HPE_HEADER_OVERFLOW";

/** What is no HTTP gets a status and no more; `latest` is the reply to the request before it. */
export function refuseBroken(
  error: Error,
  socket: Duplex,
  latest: ServerResponse | undefined,
): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  if (latest?.headersSent === true && !latest.writableFinished) {
    // A second head within a reply would be read as a part of it, or as another reply.
    socket.end();
    return;
  }
  const isTooLarge = "code" in error && error.code === HEADER_OVERFLOW;
  const status = isTooLarge ? "431 Request Header Fields Too Large" : "400 Bad Request";
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
}
