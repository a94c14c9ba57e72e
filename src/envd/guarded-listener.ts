/**
 * A listener that programs of the sandbox can connect to, for servers that only the host may reach:
 * a connection is served once it has begun with the host's secret, in frames.
 */

import { timingSafeEqual } from "node:crypto";
import type { Server as HttpServer } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { unframe } from "./framed-socket.ts";

/** The host writes the secret as it connects. */
const SECRET_TIMEOUT_MS = 5_000;
/** More that wait at once are of programs; the oldest goes for a new one. */
const MAX_WAITING = 64;

export interface Guard {
  readonly secret: Buffer;
  /** Called when a connection has closed, whether it was served or not. */
  readonly onClosed: () => void;
}

export interface GuardedListener {
  readonly listener: Server;
  /** Connects to itself, if it listens; `onClosed` is not called for that connection. */
  readonly touch: () => void;
}

/** Hands connections that begin with the secret to `server`; it does not listen yet. */
export function guardBySecret(server: HttpServer, { secret, onClosed }: Guard): GuardedListener {
  const waiting = new Set<Duplex>();
  /** Ports of connections that the daemon made itself. */
  const ownPorts = new Set<number | undefined>();
  const listener = createServer({ pauseOnConnect: true }, (raw) => {
    const { remotePort } = raw;
    raw.once("close", () => {
      if (!ownPorts.delete(remotePort)) onClosed();
    });
    // Not before the kernel was asked again what is ready: see `wake-loop.ts`.
    setImmediate(() => setImmediate(() => serve(raw)));
  });
  // Of the server's own connections alone: it does not count what it is handed.
  if (server.maxConnections > 0) listener.maxConnections = server.maxConnections + MAX_WAITING;
  return { listener, touch };

  function touch(): void {
    const address = listener.address();
    if (address === null || typeof address === "string") return;
    const client = connect(address.port, "127.0.0.1", () => {
      ownPorts.add(client.localPort);
      client.destroy();
    });
    // Programs may have filled the listener: then it reports theirs.
    client.on("error", () => undefined);
  }

  function serve(raw: Socket): void {
    const socket = unframe(raw);
    const [oldest] = waiting;
    if (oldest !== undefined && waiting.size >= MAX_WAITING) oldest.destroy();
    waiting.add(socket);
    awaitSecret(socket, secret, () => server.emit("connection", socket));
    socket.once("close", () => waiting.delete(socket));
    raw.resume();
  }

  function awaitSecret(socket: Duplex, wanted: Buffer, onSecret: () => void): void {
    const onReadable = (): void => {
      const begin: unknown = socket.read(wanted.length);
      if (!(begin instanceof Buffer)) return;
      leave();
      if (begin.length === wanted.length && timingSafeEqual(begin, wanted)) onSecret();
      else socket.destroy();
    };
    const giveUp = (): void => {
      socket.destroy();
    };
    const timer = setTimeout(giveUp, SECRET_TIMEOUT_MS).unref();
    const leave = (): void => {
      clearTimeout(timer);
      waiting.delete(socket);
      socket
        .off("readable", onReadable)
        .off("error", giveUp)
        .off("end", giveUp)
        .off("close", leave);
    };
    socket.on("readable", onReadable);
    // A connection that fails or ends before it is served is closed.
    socket.once("error", giveUp).once("end", giveUp).once("close", leave);
  }
}
