/** The body of an RPC on its way to the library: what would cost too much does not get there. */

import type { IncomingMessage } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { SandboxError, errorText } from "../common/errors.ts";
import { createJsonGauge } from "../common/json.ts";
import { createMessageReader, type MessageReader } from "../wire/message-reader.ts";

const JSON_TYPE = /json/i;
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
  const createGauge = isJson ? () => createJsonGauge() : () => () => undefined;
  return judged(chunks, createMessageReader({ isUnary, maxBytes, createGauge }));
}

async function* judged(
  chunks: AsyncIterable<Uint8Array>,
  reader: MessageReader,
): AsyncGenerator<Uint8Array> {
  let fault: ConnectError | undefined;
  let left = MAX_DRAINED_BYTES;
  for await (const chunk of chunks) {
    // A client that is still sending looks at no reply: the rest is read, but goes nowhere.
    if (fault !== undefined && (left -= chunk.length) < 0) break;
    if (fault !== undefined) continue;
    try {
      const whole = reader.add(chunk);
      if (whole !== undefined) yield whole;
    } catch (error) {
      fault = toFault(error);
    }
  }
  if (fault !== undefined) throw fault;
  const rest = reader.rest();
  if (rest !== undefined) yield rest;
}

function toFault(error: unknown): ConnectError {
  const isTooDeep = error instanceof SandboxError && error.code === "invalid_argument";
  const code = isTooDeep ? Code.InvalidArgument : Code.ResourceExhausted;
  return new ConnectError(errorText(error), code, undefined, undefined, error);
}
