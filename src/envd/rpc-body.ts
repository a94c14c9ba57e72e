/** The body of an RPC on its way to the library: what would cost too much does not get there. */

import type { IncomingMessage } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { SandboxError, errorText } from "../common/errors.ts";
import { createJsonGauge, type JsonGauge } from "../common/json.ts";

const JSON_TYPE = /json/i;
const ENVELOPE_BYTES = 5;
/** What is left of a refused message is read up to this, then the line is cut. */
const MAX_DRAINED_BYTES = 8_388_608;

export interface RpcBodyOptions {
  readonly isUnary: boolean;
  /** What one message may have. */
  readonly maxBytes: number;
}

/**
 * The bytes of a request as the library reads them. Its use throws a ConnectError for a message
 * that is too long, and for JSON that is too deep or too rich; the connection stays whole, so that
 * a reply can be sent.
 */
export function readRpcBody(
  request: IncomingMessage,
  { isUnary, maxBytes }: RpcBodyOptions,
): AsyncIterable<Uint8Array> {
  const chunks: AsyncIterable<Uint8Array> = request.iterator({ destroyOnReturn: false });
  const isJson = JSON_TYPE.test(request.headers["content-type"] ?? "");
  const createGauge = isJson ? createJsonGauge : () => () => undefined;
  const create = isUnary ? createMessageGauge : createEnvelopeGauge;
  return judged(chunks, create(createGauge, maxBytes));
}

async function* judged(
  chunks: AsyncIterable<Uint8Array>,
  gauge: JsonGauge,
): AsyncGenerator<Uint8Array> {
  let fault: ConnectError | undefined;
  let left = MAX_DRAINED_BYTES;
  for await (const chunk of chunks) {
    fault ??= faultOf(gauge, chunk);
    // A client that is still sending looks at no reply: the rest is read, but goes nowhere.
    if (fault === undefined) yield chunk;
    else if ((left -= chunk.length) < 0) break;
  }
  if (fault === undefined) return;
  throw fault;
}

function faultOf(gauge: JsonGauge, chunk: Uint8Array): ConnectError | undefined {
  try {
    gauge(chunk);
    return undefined;
  } catch (error) {
    const isTooDeep = error instanceof SandboxError && error.code === "invalid_argument";
    const code = isTooDeep ? Code.InvalidArgument : Code.ResourceExhausted;
    return new ConnectError(errorText(error), code, undefined, undefined, error);
  }
}

function createMessageGauge(createGauge: () => JsonGauge, maxBytes: number): JsonGauge {
  const gauge = createGauge();
  let size = 0;
  return (bytes) => {
    size += bytes.length;
    requireSize(size, maxBytes);
    gauge(bytes);
  };
}

function requireSize(size: number, maxBytes: number): void {
  if (size <= maxBytes) return;
  throw new SandboxError("resource_exhausted", `message exceeds ${maxBytes} bytes`);
}

/** Every envelope is a text of its own. */
function createEnvelopeGauge(createGauge: () => JsonGauge, maxBytes: number): JsonGauge {
  const head = Buffer.alloc(ENVELOPE_BYTES);
  let headBytes = 0;
  let messageBytes = 0;
  let gauge = createGauge();

  function take(bytes: Uint8Array): number {
    if (messageBytes > 0) {
      const message = bytes.subarray(0, messageBytes);
      gauge(message);
      messageBytes -= message.length;
      return message.length;
    }
    const piece = bytes.subarray(0, ENVELOPE_BYTES - headBytes);
    head.set(piece, headBytes);
    headBytes = (headBytes + piece.length) % ENVELOPE_BYTES;
    if (headBytes > 0) return piece.length;
    messageBytes = head.readUInt32BE(1);
    requireSize(messageBytes, maxBytes);
    gauge = createGauge();
    return piece.length;
  }

  return (bytes) => {
    for (let at = 0; at < bytes.length;) at += take(bytes.subarray(at));
  };
}
