/** GET /tunnel/<port> with an upgrade: raw bytes to a port that listens on a loopback address. */

import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { parsePort } from "../../wire/address.ts";

/** Both loopbacks are tried: a server may listen on either alone. */
const ADDRESSES = ["127.0.0.1", "::1"] as const;
/** Loopback answers at once or never. */
const CONNECT_MS = 5_000;
/** Each holds two descriptors and up to four buffers. */
const MAX_TUNNELS = 256;
const TUNNEL_PATTERN = /^\/tunnel\/([0-9]{1,5})$/;
const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** Bytes that came with the request. */
  readonly head: Buffer;
}

/** A handler of upgrade requests; what it cannot serve is answered and closed. */
export function createTunnelHandler(): (upgrade: Upgrade) => Promise<void> {
  let open = 0;
  return async (upgrade) => {
    const { socket } = upgrade;
    socket.on("error", () => socket.destroy());
    const port = parsePort(TUNNEL_PATTERN.exec(upgrade.request.url ?? "")?.[1] ?? "");
    if (port === undefined || upgrade.request.headers.upgrade !== "tcp") {
      refuse(socket, { status: "404 Not Found", body: { code: 404, message: "no such tunnel" } });
    } else if (open >= MAX_TUNNELS) {
      const body = { code: 429, message: "too many tunnels" };
      refuse(socket, { status: "429 Too Many Requests", body });
    } else {
      open += 1;
      try {
        await carry(upgrade, port);
      } finally {
        open -= 1;
      }
    }
  };
}

async function carry({ socket, head }: Upgrade, port: number): Promise<void> {
  const target = await dial(port);
  if (target === undefined) {
    const message = "The sandbox is running but port is not open";
    refuse(socket, { status: "502 Bad Gateway", body: { code: 502, message, port } });
    return;
  }
  target.on("error", () => socket.destroy());
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  target.on("close", close);
  socket.on("close", () => target.destroy());
  if (socket.destroyed) {
    target.destroy();
    return;
  }
  socket.write(SWITCHING);
  target.write(head);
  socket.pipe(target).pipe(socket);
  await closed;
}

async function dial(port: number): Promise<Socket | undefined> {
  for (const host of ADDRESSES) {
    const target = connect({ host, port, allowHalfOpen: true, noDelay: true });
    target.setTimeout(CONNECT_MS, () => target.destroy());
    const { promise, resolve } = Promise.withResolvers<boolean>();
    target.once("connect", () => resolve(true));
    target.once("close", () => resolve(false));
    // `close` follows.
    target.on("error", () => undefined);
    if (await promise) {
      target.setTimeout(0);
      return target;
    }
  }
  return undefined;
}

function refuse(
  socket: Duplex,
  reply: { readonly status: string; readonly body: Readonly<Record<string, unknown>> },
): void {
  const body = JSON.stringify(reply.body);
  const head = [
    `HTTP/1.1 ${reply.status}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}
