/** One HTTP/2 request as frames, with headers that no client library would send. */

import { once } from "node:events";
import { connect } from "node:tls";

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD_BYTES = 9;
const TYPE = { data: 0, headers: 1, reset: 3, settings: 4, goAway: 7 } as const;
const END_STREAM = 1;
const END_HEADERS = 4;
const LIMIT_MS = 10_000;

export interface RawHttp2Request {
  readonly headers: readonly (readonly [string, string])[];
  /** Undefined for a stream that ends with its headers. */
  readonly body?: string | undefined;
}

/** Resolves with how the stream ended: by a reply, or broken with its whole connection or alone. */
export async function sendRawHttp2(
  door: { readonly port: number; readonly ca: string; readonly servername: string },
  { headers, body }: RawHttp2Request,
): Promise<"answered" | "reset" | "closed"> {
  const socket = connect({ ...door, host: "127.0.0.1", ALPNProtocols: ["h2"] });
  socket.setTimeout(LIMIT_MS, () => socket.destroy(new Error("the stream stays open")));
  const flags = END_HEADERS | (body === undefined ? END_STREAM : 0);
  const block = Buffer.concat(headers.map(([name, value]) => literal(name, value)));
  const frames = [
    frame({ type: TYPE.settings, flags: 0, stream: 0 }, Buffer.alloc(0)),
    frame({ type: TYPE.headers, flags, stream: 1 }, block),
  ];
  if (body !== undefined) {
    frames.push(frame({ type: TYPE.data, flags: END_STREAM, stream: 1 }, Buffer.from(body)));
  }
  socket.write(Buffer.concat([Buffer.from(PREFACE), ...frames]));
  let received = Buffer.alloc(0);
  let outcome: "answered" | "reset" | "closed" = "closed";
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    for (;;) {
      if (received.length < FRAME_HEAD_BYTES) return;
      const length = received.readUIntBE(0, 3);
      if (received.length < FRAME_HEAD_BYTES + length) return;
      const [type, bits = 0] = [received[3], received[4]];
      received = received.subarray(FRAME_HEAD_BYTES + length);
      const isEnd = (type === TYPE.headers || type === TYPE.data) && (bits & END_STREAM) !== 0;
      if (isEnd) outcome = "answered";
      if (type === TYPE.reset) outcome = "reset";
      if (isEnd || type === TYPE.reset || type === TYPE.goAway) socket.destroy();
    }
  });
  await once(socket, "close");
  return outcome;
}

interface FrameHead {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
}

function frame({ type, flags, stream }: FrameHead, payload: Buffer): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A field that is not indexed, its name and value as they are (RFC 7541, 6.2.2). */
function literal(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(0), text(name), text(value)]);
}

/** The length has seven bits here: shorter texts than 127 bytes are enough. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  return Buffer.concat([Buffer.of(bytes.length), bytes]);
}
