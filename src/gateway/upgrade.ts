/** Upgraded connections, such as WebSocket: the handshake is read, what follows is only bytes. */

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { wantedProtocols } from "../common/connection-headers.ts";
import { joinStreams } from "../common/join-streams.ts";
import { toClientHeaders, toClientPhrase, toUpstreamHeaders } from "./headers.ts";
import { limitDaemonWait, openUpstream, passReply, type Exchange } from "./proxy.ts";

/** The client's raw connection, with what was read beyond the head. */
export interface Connection {
  readonly socket: Duplex;
  readonly head: Buffer;
}

/** Resolves when the client's connection is over. */
export async function proxyUpgrade(
  exchange: Exchange,
  connection: Connection,
  socket: Socket,
): Promise<void> {
  const { request, passage } = exchange;
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const upstream = openUpstream(request, socket, [
    ...toUpstreamHeaders(request, passage),
    "connection",
    "Upgrade",
    "upgrade",
    wantedProtocols(request.headers.upgrade),
  ]);
  connection.socket.once("close", () => {
    upstream.destroy();
    resolve();
  });
  upstream.on("upgrade", (reply, inner, innerHead) => {
    connection.socket.write(formatHead(reply, exchange), "latin1");
    connection.socket.write(innerHead);
    inner.write(connection.head);
    joinStreams(connection.socket, inner);
  });
  limitDaemonWait(exchange, upstream);
  // A service that does not upgrade answers as usual, and the connection ends with the answer.
  passReply(upstream, exchange);
  upstream.end();
  await over;
}

function formatHead(reply: IncomingMessage, { rules }: Exchange): string {
  const { statusCode = 101 } = reply;
  const lines = [`HTTP/1.1 ${statusCode} ${toClientPhrase(reply)}`];
  const headers = toClientHeaders(reply, rules);
  headers.push("connection", "Upgrade", "upgrade", reply.headers.upgrade ?? "");
  for (let index = 0; index + 1 < headers.length; index += 2) {
    lines.push(`${headers[index]}: ${headers[index + 1]}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}
