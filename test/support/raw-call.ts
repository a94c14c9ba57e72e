/** Bytes to a socket and whatever comes back, for requests that no client would send. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { encodeEnvelope } from "../../src/rpc/envelope.ts";

export interface RawOptions {
  /** Leaves the connection half open: the request is never finished. */
  readonly isUnfinished?: boolean;
}

/** Sends bytes and resolves with the reply once the peer closes or falls silent for 300 ms. */
export async function rawCall(
  socketPath: string,
  bytes: string | Uint8Array,
  { isUnfinished = false }: RawOptions = {},
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = connect({ path: socketPath, allowHalfOpen: true });
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  socket.setTimeout(300, () => socket.destroy());
  socket.on("error", () => socket.destroy());
  socket.once("end", () => socket.destroy());
  socket.once("close", () => resolve(text));
  if (isUnfinished) socket.write(bytes);
  else socket.end(bytes);
  return promise;
}

/** Where a request is sent. */
export type RawDoor =
  | { readonly path: string }
  | { readonly port: number }
  | { readonly port: number; readonly ca: string; readonly servername: string };

const LIMIT_MS = 10_000;

/** Sends bytes and resolves with all that comes back. @throws when the peer keeps the line open */
export async function sendRaw(door: RawDoor, bytes: string | Buffer): Promise<string> {
  const socket: Socket =
    "ca" in door
      ? connectTls({ ...door, host: "127.0.0.1", ALPNProtocols: ["http/1.1"] })
      : connect({ ...door, allowHalfOpen: true });
  socket.setTimeout(LIMIT_MS, () => socket.destroy(new Error("the connection stays open")));
  let text = "";
  socket.on("data", (part: Buffer) => (text += part.toString("latin1")));
  // A server that refuses before it has read everything may reset the line after its answer.
  let failure: Error | undefined;
  socket.on("error", (error: Error) => (failure = error));
  socket.once("end", () => socket.end());
  socket.write(bytes);
  await once(socket, "close");
  if (text === "" && failure !== undefined && !isReset(failure)) throw failure;
  return text;
}

function isReset(error: Error): boolean {
  return "code" in error && (error.code === "ECONNRESET" || error.code === "EPIPE");
}

/** The final statuses that came back, one for each request that the peer saw. */
export function statusesIn(reply: string): readonly number[] {
  const found = [...reply.matchAll(/^HTTP\/1\.1 ([0-9]{3}) /gm)].map(([, status]) =>
    Number(status),
  );
  return found.filter((status) => status >= 200 || status === 101);
}

/** One message in the envelope of a stream, for requests; `announced` lies about its length. */
export function envelope(
  message: string | Uint8Array,
  { flags = 0, announced }: { readonly flags?: number; readonly announced?: number } = {},
): Buffer {
  const bytes = encodeEnvelope(message, flags);
  if (announced !== undefined) bytes.writeUInt32BE(announced, 1);
  return bytes;
}

/** The envelopes of a reply, as flags and parsed JSON. */
export function readEnvelopes(bytes: Buffer): { readonly flags: number; readonly json: unknown }[] {
  const found: { flags: number; json: unknown }[] = [];
  for (let offset = 0; offset + 5 <= bytes.length;) {
    const length = bytes.readUInt32BE(offset + 1);
    const json: unknown = JSON.parse(bytes.toString("utf8", offset + 5, offset + 5 + length));
    found.push({ flags: bytes.readUInt8(offset), json });
    offset += 5 + length;
  }
  return found;
}
