/**
 * The stream of a process from our own daemon, in the binary form of the wire, without the library
 * in between: much goes through here, and each layer looks at every byte again.
 */

import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { endStreamFlag, endStreamFromJson } from "@connectrpc/connect/protocol-connect";
import { request } from "undici";
import { SandboxError, errorText } from "../common/errors.ts";
import { createJsonGauge } from "../common/json.ts";
import {
  ConnectRequestSchema,
  StartRequestSchema,
  StartResponseSchema,
  type ProcessEvent,
} from "../gen/process/process_pb.ts";
import { MAX_REPLY_VALUES, readAll, replyError } from "./http.ts";
import { redactKeys } from "./redact.ts";
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
/** A flag, and the length in four bytes. */
const HEAD_BYTES = 5;
/** The largest event has 32 KiB of output. */
const MAX_MESSAGE_BYTES = 1024 * 1024;
const MAX_ERROR_BYTES = 65_536;

/** Streams of the daemon that these options lead to, which must be ours. */
export function createEventClient(options: RpcOptions): EventClient {
  return {
    start(message, call) {
      const bytes = toBinary(StartRequestSchema, create(StartRequestSchema, message));
      return openStream(options, { ...call, path: PATHS.start, bytes });
    },
    connect(message, call) {
      const bytes = toBinary(ConnectRequestSchema, create(ConnectRequestSchema, message));
      return openStream(options, { ...call, path: PATHS.connect, bytes });
    },
  };
}

interface Opening extends EventCall {
  readonly path: string;
  /** The one message of the request. */
  readonly bytes: Uint8Array;
}

/** Both calls answer with messages of the same form. */
async function* openStream(
  options: RpcOptions,
  { path, bytes, ...call }: Opening,
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
    body: inEnvelope(bytes),
    signal: call.signal,
    // A silent stream is alive; the signal bounds it.
    bodyTimeout: 0,
    headersTimeout: 0,
  });
  const { statusCode: status, headers: given, body } = reply;
  if (status !== 200 || given["content-type"] !== CONTENT_TYPE) {
    const said = await readAll(body, MAX_ERROR_BYTES, "error reply");
    const text = Buffer.from(redactKeys(said.toString("utf8"), access), "utf8");
    if (status < 300) throw unexpected(`its type is ${String(given["content-type"])}`);
    throw replyError(path, { status, headers: {}, body: text });
  }
  let isOver = false;
  for await (const { flags, message } of envelopesOf(body)) {
    if (isOver) throw unexpected("a message after the end of the stream");
    isOver = (flags & endStreamFlag) !== 0;
    if (isOver) requireGoodEnd(message);
    else if (flags === 0) yield decode(message);
    else throw unexpected(`an envelope with the flags ${flags}`);
  }
  if (!isOver) throw new ConnectError("stream without an end", Code.Unavailable);
}

function inEnvelope(message: Uint8Array): Buffer {
  const envelope = Buffer.alloc(HEAD_BYTES + message.length);
  envelope.writeUInt32BE(message.length, 1);
  envelope.set(message, HEAD_BYTES);
  return envelope;
}

/** Its output is a view of the message, which nobody may keep. */
function decode(message: Uint8Array) {
  try {
    return fromBinary(StartResponseSchema, message, { readUnknownFields: false });
  } catch (error) {
    throw unexpected(errorText(error), error);
  }
}

/** @throws ConnectError as which the daemon ended the stream. */
function requireGoodEnd(message: Uint8Array): void {
  let end: ReturnType<typeof endStreamFromJson>;
  try {
    createJsonGauge({ maxValues: MAX_REPLY_VALUES })(message);
    end = endStreamFromJson(message);
  } catch (error) {
    throw unexpected(errorText(error), error);
  }
  if (end.error !== undefined) throw end.error;
}

/** A fault of the peer, not of whoever asked. */
function unexpected(what: string, cause?: unknown): SandboxError {
  return new SandboxError("internal", `unexpected reply: ${what}`, { cause });
}

interface Envelope {
  readonly flags: number;
  /** A view of what came where it came in one piece; good until the next envelope is asked for. */
  readonly message: Uint8Array;
}

async function* envelopesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Envelope, void> {
  const reader = createEnvelopeReader();
  for await (const chunk of chunks) {
    reader.give(chunk);
    for (let next = reader.take(); next !== undefined; next = reader.take()) yield next;
  }
  if (reader.isWithin) throw new ConnectError("the stream broke off", Code.Unavailable);
}

interface EnvelopeReader {
  /** Takes a piece; all that was given before must have been taken. */
  give(chunk: Uint8Array): void;
  /** @throws SandboxError resource_exhausted for one that announces too much. */
  take(): Envelope | undefined;
  /** Whether an envelope has begun that did not end. */
  readonly isWithin: boolean;
}

function createEnvelopeReader(): EnvelopeReader {
  const head = Buffer.alloc(HEAD_BYTES);
  let headBytes = 0;
  /** The message that did not come in one piece. */
  let message: Buffer | undefined;
  let messageBytes = 0;
  let left: Uint8Array = head.subarray(0, 0);

  function cut(length: number): Uint8Array {
    const piece = left.subarray(0, length);
    left = left.subarray(piece.length);
    return piece;
  }

  function readHead(): boolean {
    const piece = cut(HEAD_BYTES - headBytes);
    head.set(piece, headBytes);
    headBytes += piece.length;
    return headBytes === HEAD_BYTES;
  }

  function readMessage(): Uint8Array | undefined {
    const length = head.readUInt32BE(1);
    if (length > MAX_MESSAGE_BYTES) {
      throw new SandboxError("resource_exhausted", `message exceeds ${MAX_MESSAGE_BYTES} bytes`);
    }
    if (message === undefined && left.length >= length) return cut(length);
    message ??= Buffer.allocUnsafe(length);
    const piece = cut(length - messageBytes);
    message.set(piece, messageBytes);
    messageBytes += piece.length;
    return messageBytes === length ? message : undefined;
  }

  return {
    give(chunk) {
      left = chunk;
    },
    take() {
      if (headBytes < HEAD_BYTES && !readHead()) return undefined;
      const whole = readMessage();
      if (whole === undefined) return undefined;
      headBytes = 0;
      message = undefined;
      messageBytes = 0;
      return { flags: head[0] ?? 0, message: whole };
    },
    get isWithin() {
      return headBytes > 0;
    },
  };
}
