/** The pace of a stream of HTTP/2: its body goes on as it comes, and a reply as its client takes it. */

import type { ClientRequest, IncomingMessage } from "node:http";
import type { ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";

/**
 * Passes on what has come as one piece, however small its frames were: each costs as much as a long one.
 * The end is the caller's.
 */
export function passBody(stream: ServerHttp2Stream, call: ClientRequest): void {
  let isFull = false;
  const pass = (): void => {
    while (!isFull) {
      const chunk: Buffer | null = stream.read(stream.readableLength);
      if (chunk === null) return;
      isFull = !call.write(chunk);
    }
  };
  call.on("drain", () => {
    isFull = false;
    pass();
  });
  stream.on("readable", pass);
}

/**
 * Calls back when the client has taken what came before. What a client does not read stays with the
 * service, as on a connection of its own, where it is counted for its team.
 */
export function onceTaken(
  stream: ServerHttp2Stream,
  isOnItsWay: () => boolean,
  goOn: () => void,
): void {
  const again = (): void => onceTaken(stream, isOnItsWay, goOn);
  if (stream.destroyed || stream.writableFinished) goOn();
  else if (stream.writableEnded) stream.once("finish", goOn);
  else if (stream.writableLength > 0) stream.write("", again);
  else if (isOnItsWay()) setImmediate(again);
  else goOn();
}

/** Whether there is something that its reader has not taken. */
export function hasUnread(source: Duplex | IncomingMessage | undefined): boolean {
  return source !== undefined && !source.destroyed && source.readableLength > 0;
}
