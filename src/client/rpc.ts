/**
 * Connect RPC over the connections of a service. JSON, which every service knows and a wire log
 * shows; the binary form where the service is ours and much is to be carried.
 */

import { Readable } from "node:stream";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import type { UniversalClientFn } from "@connectrpc/connect/protocol";
import { createTransport } from "@connectrpc/connect/protocol-connect";
import { request } from "undici";
import { createByteBuffer } from "../common/bytes.ts";
import {
  SandboxError,
  causeCode,
  errorText,
  toSandboxError,
  type ErrorCode,
} from "../common/errors.ts";
import { createJsonGauge, type JsonGauge } from "../common/json.ts";
import { quoteWords } from "../common/plain-text.ts";
import { Filesystem } from "../gen/filesystem/filesystem_pb.ts";
import { Process } from "../gen/process/process_pb.ts";
import { createMessageReader } from "../wire/message-reader.ts";
import { MAX_REPLY_VALUES, errorMessage, readAll, replyError, type Connection } from "./http.ts";
import { redactKeys } from "./redact.ts";

export interface RpcOptions {
  readonly connection: Connection;
  readonly baseUrl: string;
  /** Asked again for every call, since a token can change. */
  headers(): Readonly<Record<string, string>>;
  readonly isBinary: boolean;
}

/** A larger message is refused at both ends; a listing of 20,000 entries is smaller. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;
const MAX_ERROR_BYTES = 65_536;
const STREAM_TYPE = "application/connect+";
const BINARY_TYPE = /^application\/(?:connect\+)?proto\b/;

/** A transport for the generated clients. */
export function createRpcTransport(options: RpcOptions): Transport {
  const httpClient: UniversalClientFn = async (call) => {
    const headers = options.headers();
    const isStream = STREAMED_PATHS.some((path) => call.url.endsWith(path));
    const reply = await request(call.url, {
      dispatcher: options.connection.dispatcher,
      method: "POST",
      headers: { ...Object.fromEntries(call.header), ...headers },
      body: call.body === undefined ? null : await toBody(call.body, isStream),
      signal: call.signal ?? null,
      // A silent stream is alive; the signal bounds it.
      bodyTimeout: 0,
      headersTimeout: 0,
    });
    const header = new Headers();
    for (const [name, value] of Object.entries(reply.headers)) header.set(name, String(value));
    const { statusCode: status } = reply;
    const body =
      status < 300
        ? judged(reply.body, header)
        : await errorBody(reply, { url: call.url, headers });
    return { status, header, body, trailer: new Headers() };
  };
  return createTransport({
    httpClient,
    baseUrl: options.baseUrl,
    useBinaryFormat: options.isBinary,
    // Each field that nobody knows would be kept as an object.
    binaryOptions: { readUnknownFields: false },
    interceptors: [],
    acceptCompression: [],
    sendCompression: null,
    compressMinBytes: 1024,
    readMaxBytes: MAX_MESSAGE_BYTES,
    writeMaxBytes: MAX_MESSAGE_BYTES,
  });
}

/** The calls whose messages come one by one; of any other the one message is at hand. */
const STREAMED_PATHS: readonly string[] = [Filesystem, Process].flatMap(({ typeName, methods }) =>
  methods
    .filter(
      ({ methodKind }) => methodKind === "client_streaming" || methodKind === "bidi_streaming",
    )
    .map(({ name }) => `/${typeName}/${name}`),
);

/** A message that is whole goes in one piece with the head of its request. */
async function toBody(
  chunks: AsyncIterable<Uint8Array>,
  isStream: boolean,
): Promise<Readable | Uint8Array> {
  if (isStream) return Readable.from(chunks);
  const whole = createByteBuffer();
  for await (const chunk of chunks) whole.add(chunk);
  return whole.take();
}

/** The messages of a reply; the library would parse whatever fits into one. */
async function* judged(
  chunks: AsyncIterable<Uint8Array>,
  header: Headers,
): AsyncGenerator<Uint8Array> {
  const type = header.get("content-type") ?? "";
  const isBinary = BINARY_TYPE.test(type);
  const reader = createMessageReader({
    isUnary: !type.startsWith(STREAM_TYPE),
    maxBytes: MAX_MESSAGE_BYTES,
    // The end of a stream is JSON in either form; what is binary stands for its own size.
    createGauge: (flags) =>
      isBinary && flags === 0 ? TAKE_ALL : createJsonGauge({ maxValues: MAX_REPLY_VALUES }),
  });
  for await (const chunk of chunks) {
    const whole = refusing(() => reader.add(chunk));
    if (whole !== undefined) yield whole;
  }
  const rest = reader.rest();
  if (rest !== undefined) yield rest;
}

const TAKE_ALL: JsonGauge = () => undefined;

function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    // A fault of the peer, not of whoever asked.
    const message = `unexpected reply: ${errorText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

/**
 * The body of an error reply. A plain HTTP error, which a gateway or the token check sends in the
 * place of Connect's own form, is thrown as what its status means.
 */
async function errorBody(
  reply: { readonly statusCode: number; readonly body: AsyncIterable<Uint8Array> },
  call: { readonly url: string; readonly headers: Readonly<Record<string, string>> },
): Promise<AsyncIterable<Uint8Array>> {
  const bytes = await readAll(reply.body, MAX_ERROR_BYTES, "error reply");
  const text = redactKeys(bytes.toString("utf8"), call.headers);
  const body = Buffer.from(text, "utf8");
  if (errorMessage(body) !== undefined) {
    const { statusCode: status } = reply;
    throw replyError(new URL(call.url).pathname.slice(1), { status, headers: {}, body });
  }
  return Readable.from([body]);
}

const ERROR_CODE_OF = {
  [Code.Canceled]: "canceled",
  [Code.Unknown]: "internal",
  [Code.InvalidArgument]: "invalid_argument",
  [Code.DeadlineExceeded]: "deadline_exceeded",
  [Code.NotFound]: "not_found",
  [Code.AlreadyExists]: "already_exists",
  [Code.PermissionDenied]: "permission_denied",
  [Code.ResourceExhausted]: "resource_exhausted",
  [Code.FailedPrecondition]: "failed_precondition",
  [Code.Aborted]: "failed_precondition",
  [Code.OutOfRange]: "invalid_argument",
  [Code.Unimplemented]: "unimplemented",
  [Code.Internal]: "internal",
  [Code.Unavailable]: "unavailable",
  [Code.DataLoss]: "internal",
  [Code.Unauthenticated]: "unauthenticated",
} as const satisfies Record<Code, ErrorCode>;

/** Whatever an RPC threw as ours; what the peer said is quoted in it. */
export function fromRpcError(error: unknown, subject: string): SandboxError {
  if (!(error instanceof ConnectError)) return toSandboxError(error, subject);
  if (error.cause instanceof SandboxError) return error.cause;
  // A broken connection arrives as an unknown error, whose cause has the reason.
  if (causeCode(error.cause) !== undefined) return toSandboxError(error.cause, subject);
  const message = `${subject}: ${quoteWords(error.rawMessage)}`;
  return new SandboxError(ERROR_CODE_OF[error.code], message, { cause: error });
}
