/** What the messages of an RPC may cost whoever reads them, judged from their bytes as they come. */

import { SandboxError } from "../common/errors.ts";
import type { JsonGauge } from "../common/json.ts";

export interface MessageGaugeOptions {
  /** For the text of one message; one that takes everything where messages are no JSON. */
  readonly createGauge: () => JsonGauge;
  /** What one message may have. */
  readonly maxBytes: number;
}

const ENVELOPE_BYTES = 5;

/** A gauge for one message that is the whole of a body. */
export function createMessageGauge(options: MessageGaugeOptions): JsonGauge {
  const { createGauge, maxBytes } = options;
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

/** A gauge for the envelopes of a stream, each of which is a message of its own. */
export function createEnvelopeGauge(options: MessageGaugeOptions): JsonGauge {
  const { createGauge, maxBytes } = options;
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
