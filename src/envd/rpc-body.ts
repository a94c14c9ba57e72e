/** The body of an RPC on its way to the library: JSON that would cost too much does not get there. */

import type { IncomingMessage } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorText } from "../common/errors.ts";
import { createJsonGauge, type JsonGauge } from "../common/json.ts";

const JSON_TYPE = /json/i;
const ENVELOPE_BYTES = 5;

/**
 * The bytes of a request as the library reads them. Its use throws a ConnectError for JSON that is
 * too deep or too rich; the connection stays whole, so that a reply can be sent.
 */
export function readRpcBody(
  request: IncomingMessage,
  { isUnary }: { readonly isUnary: boolean },
): AsyncIterable<Uint8Array> {
  const chunks: AsyncIterable<Uint8Array> = request.iterator({ destroyOnReturn: false });
  if (!JSON_TYPE.test(request.headers["content-type"] ?? "")) return chunks;
  return judged(chunks, isUnary ? createJsonGauge() : createEnvelopeGauge());
}

async function* judged(
  chunks: AsyncIterable<Uint8Array>,
  gauge: JsonGauge,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    try {
      gauge(chunk);
    } catch (error) {
      throw new ConnectError(errorText(error), Code.ResourceExhausted, undefined, undefined, error);
    }
    yield chunk;
  }
}

/** Every envelope is a text of its own. */
function createEnvelopeGauge(): JsonGauge {
  const head = Buffer.alloc(ENVELOPE_BYTES);
  let headBytes = 0;
  let messageBytes = 0;
  let gauge = createJsonGauge();

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
    gauge = createJsonGauge();
    return piece.length;
  }

  return (bytes) => {
    for (let at = 0; at < bytes.length;) at += take(bytes.subarray(at));
  };
}
