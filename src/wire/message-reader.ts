/**
 * The messages of an RPC on their way to the library: what they may cost is judged from their bytes
 * as they come, and they are handed on whole. The library joins pieces one by one, which for a
 * message in a million pieces takes minutes.
 */

import { createByteBuffer } from "../common/bytes.ts";
import { SandboxError } from "../common/errors.ts";
import type { JsonGauge } from "../common/json.ts";

export interface MessageReaderOptions {
  /** Whether the whole of the bytes is one message, or envelopes with one each. */
  readonly isUnary: boolean;
  /** For the text of one message, whose envelope has these flags; one that takes everything where messages are no JSON. */
  readonly createGauge: (flags: number) => JsonGauge;
  /** What one message may have. */
  readonly maxBytes: number;
}

export interface MessageReader {
  /**
   * Takes the next piece; gives what can be handed on, if anything.
   * @throws SandboxError resource_exhausted, invalid_argument
   */
  add(bytes: Uint8Array): Uint8Array | undefined;
  /** What is left at the end: a message, or the beginning of one that was cut off. */
  rest(): Uint8Array | undefined;
}

const ENVELOPE_BYTES = 5;

/** A reader for the body of one request or reply. */
export function createMessageReader(options: MessageReaderOptions): MessageReader {
  const judge = options.isUnary ? createMessageJudge(options) : createEnvelopeJudge(options);
  const waiting = createByteBuffer();
  return {
    add(bytes) {
      const isComplete = judge(bytes);
      if (isComplete && waiting.length === 0) return bytes;
      waiting.add(bytes);
      return isComplete ? waiting.take() : undefined;
    },
    rest: () => (waiting.length === 0 ? undefined : waiting.take()),
  };
}

/** Looks at the next bytes; tells whether a message came to its end in them. */
type Judge = (bytes: Uint8Array) => boolean;

function createMessageJudge({ createGauge, maxBytes }: MessageReaderOptions): Judge {
  const gauge = createGauge(0);
  let size = 0;
  return (bytes) => {
    size += bytes.length;
    requireSize(size, maxBytes);
    gauge(bytes);
    return false;
  };
}

function requireSize(size: number, maxBytes: number): void {
  if (size <= maxBytes) return;
  throw new SandboxError("resource_exhausted", `message exceeds ${maxBytes} bytes`);
}

/** Every envelope is a text of its own. */
function createEnvelopeJudge({ createGauge, maxBytes }: MessageReaderOptions): Judge {
  const head = Buffer.alloc(ENVELOPE_BYTES);
  let headBytes = 0;
  let messageBytes = 0;
  let gauge = createGauge(0);

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
    gauge = createGauge(head[0] ?? 0);
    return piece.length;
  }

  return (bytes) => {
    let isComplete = false;
    for (let at = 0; at < bytes.length;) {
      at += take(bytes.subarray(at));
      isComplete ||= headBytes === 0 && messageBytes === 0;
    }
    return isComplete;
  };
}
