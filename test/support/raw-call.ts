/** Bytes to a unix socket and whatever comes back, for requests that no client would send. */

import { connect } from "node:net";

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

/** One message in the envelope of a stream; `announced` lies about its length. */
export function envelope(
  message: string | Uint8Array,
  { flags = 0, announced }: { readonly flags?: number; readonly announced?: number } = {},
): Buffer {
  const body = Buffer.from(message);
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(announced ?? body.length, 1);
  return Buffer.concat([head, body]);
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
