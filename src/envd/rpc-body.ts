/** The body of an RPC on its way to the library: what would cost too much does not get there. */

import type { IncomingMessage } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { SandboxError, errorText } from "../common/errors.ts";
import { createJsonGauge, type JsonGauge } from "../common/json.ts";
import { createEnvelopeGauge, createMessageGauge } from "../wire/message-gauge.ts";

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
  const create = isUnary ? createMessageGauge : createEnvelopeGauge;
  return judged(chunks, create({ createGauge, maxBytes }));
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
