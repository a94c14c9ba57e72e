/**
 * The two streams of a process from our own daemon, over the service's connections without the
 * library's transport, in the codec of rpc/process-events.ts.
 */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { request } from "undici";
import { readBeginning } from "../common/http.ts";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import type {
  ConnectRequestSchema,
  ProcessEvent,
  StartRequestSchema,
} from "../gen/process/process_pb.ts";
import { encodeConnect, encodeStart, readEvents } from "../rpc/process-events.ts";
import { MAX_REPLY_VALUES, replyError } from "./http.ts";
import { redactBody, redactFailure } from "./redact.ts";
import type { RpcOptions } from "./rpc.ts";

/** How a stream is opened. */
export interface EventCall {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** What comes over a stream of events; a keepalive and whatever is not known has no event. */
export type EventMessages = AsyncIterable<{ readonly event?: ProcessEvent | undefined }>;

/** The two calls that answer with the events of a process. */
export interface EventClient {
  start(message: MessageInitShape<typeof StartRequestSchema>, call: EventCall): EventMessages;
  connect(message: MessageInitShape<typeof ConnectRequestSchema>, call: EventCall): EventMessages;
}

const CONTENT_TYPE = "application/connect+proto";
const PATHS = { start: "process.Process/Start", connect: "process.Process/Connect" } as const;
const MAX_ERROR_BYTES = 65_536;

/** Streams of the daemon that these options lead to, which must be ours. */
export function createEventClient(options: RpcOptions): EventClient {
  return {
    start(message, call) {
      return openStream(options, { ...call, path: PATHS.start, body: encodeStart(message) });
    },
    connect(message, call) {
      return openStream(options, { ...call, path: PATHS.connect, body: encodeConnect(message) });
    },
  };
}

interface Opening extends EventCall {
  readonly path: string;
  /** The one message of the request, in its envelope. */
  readonly body: Uint8Array;
}

/** Both calls answer with messages of the same form. */
async function* openStream(
  options: RpcOptions,
  { path, body: message, ...call }: Opening,
): AsyncGenerator<{ readonly event?: ProcessEvent | undefined }> {
  const access = options.headers();
  const reply = await request(`${options.baseUrl}/${path}`, {
    dispatcher: options.connection.dispatcher,
    method: "POST",
    headers: {
      "content-type": CONTENT_TYPE,
      "connect-protocol-version": "1",
      ...call.headers,
      ...access,
    },
    body: message,
    signal: call.signal,
    // A silent stream is alive; the signal bounds it.
    bodyTimeout: 0,
    headersTimeout: 0,
  });
  const { statusCode: status, headers: given, body } = reply;
  if (status !== 200 || given["content-type"] !== CONTENT_TYPE) {
    const said = redactBody(await readBeginning(body, MAX_ERROR_BYTES), access);
    if (status < 300) throw unexpectedReply(`its type is ${String(given["content-type"])}`);
    throw replyError(path, { status, headers: {}, body: said });
  }
  yield* redactFailure(readEvents(body, { maxValues: MAX_REPLY_VALUES }), access);
}
