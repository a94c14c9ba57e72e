/**
 * Connect RPC over the connections of a service. JSON, which every service knows and a wire log
 * shows; the binary form where the service is ours and much is to be carried.
 */

import { Readable } from "node:stream";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import type { UniversalClientFn } from "@connectrpc/connect/protocol";
import { createTransport } from "@connectrpc/connect/protocol-connect";
import { request } from "undici";
import { createByteBuffer } from "../common/bytes.ts";
import { SandboxError, causeCode, errorText, toSandboxError } from "../common/errors.ts";
import { readBeginning } from "../common/http.ts";
import { createLoopTurns } from "../common/loop-turns.ts";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import { cutText, quoteWords } from "../common/untrusted-text.ts";
import { Filesystem } from "../gen/filesystem/filesystem_pb.ts";
import { Process } from "../gen/process/process_pb.ts";
import { parseContentType } from "../rpc/content-type.ts";
import { ERROR_CODES } from "../rpc/errors.ts";
import { createMessageReader } from "../rpc/message-reader.ts";
import {
  MAX_REPLY_VALUES,
  claimedError,
  errorMessage,
  isConnectError,
  isForeign,
  replyError,
  type Connection,
  type HttpReply,
} from "./http.ts";
import { redactBody, redactError, redactFailure, redactKeys } from "./redact.ts";

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
/**
 * Of a string in what is told of files: an attribute with all of its bytes escaped. The library
 * takes a size from a string, and a number of millions of digits would take seconds.
 */
const MAX_NAME_BYTES = 524_288;

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
        ? judged(reply.body, { status, header, headers, url: call.url })
        : await errorBody(reply, { url: call.url, headers });
    return { status, header, body, trailer: new Headers() };
  };
  return createTransport({
    httpClient,
    baseUrl: options.baseUrl,
    useBinaryFormat: options.isBinary,
    // Each unknown field would be kept as an object.
    binaryOptions: { readUnknownFields: false },
    interceptors: [redacted(options)],
    acceptCompression: [],
    sendCompression: null,
    compressMinBytes: 1024,
    readMaxBytes: MAX_MESSAGE_BYTES,
    writeMaxBytes: MAX_MESSAGE_BYTES,
  });
}

function redacted(options: RpcOptions): Interceptor {
  return (next) => async (call) => {
    const given = options.headers();
    try {
      const reply = await next(call);
      return reply.stream ? { ...reply, message: redactFailure(reply.message, given) } : reply;
    } catch (error) {
      throw redactError(error, given);
    }
  };
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

interface Judged {
  readonly status: number;
  /** Of the reply. */
  readonly header: Headers;
  /** Of the request, with its keys. */
  readonly headers: Readonly<Record<string, string>>;
  readonly url: string;
}

/** The messages of a reply, none of which costs too much or is the error of a proxy. */
async function* judged(
  chunks: AsyncIterable<Uint8Array>,
  { status, header, headers, url }: Judged,
): AsyncGenerator<Uint8Array> {
  // The library refuses any other type, when it looks at it.
  const type = parseContentType(header.get("content-type") ?? undefined) ?? UNKNOWN_TYPE;
  const limits = {
    maxBytes: MAX_MESSAGE_BYTES,
    maxValues: MAX_REPLY_VALUES,
    ...(url.includes(`/${Filesystem.typeName}/`) && { maxStringBytes: MAX_NAME_BYTES }),
  };
  const reader = createMessageReader(type, limits);
  const turns = createLoopTurns();
  for await (const chunk of chunks) {
    try {
      for (const message of reader.read(chunk)) {
        await turns();
        yield message;
      }
    } catch (error) {
      throw unexpectedReply(errorText(error), { cause: error });
    }
  }
  const rest = reader.rest();
  if (rest === undefined) return;
  // The library leaves out what its message does not have, and would find an empty one.
  const said = type.isStream ? undefined : claimedError(rest);
  if (said !== undefined) throw unexpectedReply(`${status} with ${redactKeys(said, headers)}`);
  const fields = REPLY_FIELDS.find(({ path }) => url.endsWith(path))?.names;
  if (!type.isBinary && fields !== undefined && isForeign(rest, fields)) {
    throw unexpectedReply(`${status} with an object of another kind`);
  }
  yield rest;
}

/**
 * The names of fields of replies with one message; without those that have no field, to which a
 * newer daemon may add some.
 */
const REPLY_FIELDS = [Filesystem, Process].flatMap(({ typeName, methods }) =>
  methods
    .filter(({ methodKind, output }) => methodKind === "unary" && output.fields.length > 0)
    .map(({ name, output }) => ({
      path: `/${typeName}/${name}`,
      names: new Set(output.fields.flatMap((field) => [field.name, field.jsonName])),
    })),
);

const UNKNOWN_TYPE = { isStream: false, isBinary: false } as const;

const LIMITED = 429;

/**
 * The body of an error reply. A plain HTTP error, which a gateway or the token check sends in the
 * place of Connect's own form, is thrown as what its status means.
 */
async function errorBody(
  reply: Pick<HttpReply, "headers"> & {
    readonly statusCode: number;
    readonly body: AsyncIterable<Uint8Array>;
  },
  call: { readonly url: string; readonly headers: Readonly<Record<string, string>> },
): Promise<AsyncIterable<Uint8Array>> {
  const body = redactBody(await readBeginning(reply.body, MAX_ERROR_BYTES), call.headers);
  const { statusCode: status } = reply;
  // Connect has no form for a redirection, and takes a proxy's limit for a service that is not there.
  const isLimit = status === LIMITED && !isConnectError(body);
  if (status < 400 || isLimit || errorMessage(body) !== undefined) {
    throw replyError(new URL(call.url).pathname.slice(1), { ...reply, status, body });
  }
  return Readable.from([body]);
}

/** What the library says, with the code of a faulty request, of a reply whose rest did not come. */
const BROKEN_OFF = /^protocol error: (?:missing EndStreamResponse|incomplete envelope|promised )/;
/** What it says of a reply that no peer of ours sends. */
const UNREAD = /^(?:protocol error: |received compressed envelope|unsupported content type)/;

/** Enough of what a peer said for a line of a log. */
const MAX_SAID_CHARACTERS = 1_024;

/** The same without what the peer attached: of a lost process the error is kept for long. */
function withoutDetails({ rawMessage, code }: ConnectError): ConnectError {
  return new ConnectError(cutText(rawMessage, MAX_SAID_CHARACTERS), code);
}

/** Whatever an RPC threw as ours; what the peer said is quoted in it. */
export function fromRpcError(error: unknown, subject: string): SandboxError {
  if (!(error instanceof ConnectError)) return toSandboxError(error, subject);
  if (error.cause instanceof SandboxError) return error.cause;
  // A broken connection arrives as an unknown error, whose cause has the reason.
  if (causeCode(error.cause) !== undefined) return toSandboxError(error.cause, subject);
  // What the library could not read has the code of a faulty request, or none; a peer's error has no cause.
  const cause = withoutDetails(error);
  const isUnread = error.code === Code.InvalidArgument && error.cause !== undefined;
  if (BROKEN_OFF.test(error.rawMessage)) {
    return new SandboxError("unavailable", `${subject}: the reply broke off`, { cause });
  }
  if (isUnread || UNREAD.test(error.rawMessage)) {
    return unexpectedReply(error.rawMessage, { subject, cause });
  }
  const message = `${subject}: ${quoteWords(error.rawMessage)}`;
  return new SandboxError(ERROR_CODES[error.code], message, { cause });
}
