/** A TCP server that answers each connection with one reply that the test chose. */

import { createServer, type Socket } from "node:net";
import { listenOnLoopback } from "../loopback.ts";
import type { HostileReply } from "./hostile-replies.ts";

export interface ReplyServer extends AsyncDisposable {
  readonly port: number;
  /** Chooses the reply for a connection by what was asked first; empty for an early one. */
  answer(choose: Choose): void;
}

type Choose = (asked: string) => HostileReply | undefined;

const nothing: Choose = () => undefined;

/** Starts the server on a loopback port; a connection without a reply is cut. */
export async function startReplyServer(): Promise<ReplyServer> {
  let choose: Choose = nothing;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    const early = choose("");
    if (early !== undefined) {
      socket.resume();
      void send(socket, early);
      return;
    }
    socket.once("data", (chunk: Buffer) => {
      socket.resume();
      const reply = choose(chunk.toString("latin1"));
      if (reply === undefined) socket.destroy();
      else void send(socket, reply);
    });
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    answer(next) {
      choose = next;
    },
    async [Symbol.asyncDispose]() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      for (const socket of sockets) socket.destroy();
      await closed.promise;
    },
  };
}

/** Never rejects: nothing in it waits for the peer. */
async function send(socket: Socket, reply: HostileReply): Promise<void> {
  for (const [index, piece] of reply.pieces.entries()) {
    if (index > 0) await new Promise(setImmediate);
    socket.write(piece);
  }
  if (reply.ending === "end") socket.end();
  if (reply.ending === "reset") socket.resetAndDestroy();
}
