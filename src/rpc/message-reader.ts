/**
 * The messages of an RPC on their way to the library: what they may cost is judged from their bytes
 * as they come, and they are handed on whole. The library would parse whatever fits into its limit
 * of bytes, and it joins pieces one by one, which for a message in a million pieces takes minutes.
 */

import { createByteBuffer } from "../common/bytes.ts";
import { createJsonGauge, type JsonGauge, type JsonLimits } from "../common/json.ts";
import type { ContentType } from "./content-type.ts";
import { createEnvelopeReader, requireSize } from "./envelope.ts";

export interface MessageLimits extends JsonLimits {
  /** What one message may have. */
  readonly maxBytes: number;
}

export interface MessageReader {
  /**
   * What the next chunk completes, all of which must be taken before the chunk after it.
   * @throws SandboxError resource_exhausted, invalid_argument
   */
  read(chunk: Uint8Array): Iterable<Uint8Array>;
  /** What is left at the end: a message, or the beginning of an envelope that was cut off. */
  rest(): Uint8Array | undefined;
}

/** A reader for the body of one request or reply. */
export function createMessageReader(type: ContentType, limits: MessageLimits): MessageReader {
  const createGauge = () => (type.isBinary ? TAKE_ALL : createJsonGauge(limits));
  if (!type.isStream) return createUnaryReader(createGauge(), limits.maxBytes);
  const reader = createEnvelopeReader({
    maxBytes: limits.maxBytes,
    // What is binary stands for its own size; the end of a stream is JSON in either codec.
    createGauge: (flags) => (flags === 0 ? createGauge() : createJsonGauge(limits)),
  });
  return {
    *read(chunk) {
      for (const { bytes } of reader.read(chunk)) yield bytes;
    },
    rest: () => reader.rest(),
  };
}

const TAKE_ALL: JsonGauge = () => undefined;

/** The whole of the body is one message. */
function createUnaryReader(gauge: JsonGauge, maxBytes: number): MessageReader {
  const whole = createByteBuffer();
  return {
    read(chunk) {
      requireSize(whole.length + chunk.length, maxBytes);
      gauge(chunk);
      whole.add(chunk);
      return [];
    },
    rest: () => (whole.length === 0 ? undefined : whole.take()),
  };
}
