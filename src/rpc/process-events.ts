/**
 * The streams of events that Start and Connect of the process service answer with, past the library
 * at both ends. It makes each event into a message and each message into bytes once for each reader;
 * here the same bytes serve all readers of a codec, and output, which is nearly all of it, is put
 * together by hand and read as a view of what came (figures: docs/adr/0024).
 */

import {
  create,
  fromBinary,
  toBinary,
  toJsonString,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { endStreamFromJson } from "@connectrpc/connect/protocol-connect";
import { characterCut } from "../common/characters.ts";
import { errorText } from "../common/errors.ts";
import { createJsonGauge, type JsonLimits } from "../common/json.ts";
import { createLoopTurns } from "../common/loop-turns.ts";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import {
  ConnectRequestSchema,
  StartRequestSchema,
  StartResponseSchema,
  type ProcessEventSchema,
  type StartResponse,
} from "../gen/process/process_pb.ts";
import {
  ENVELOPE_HEAD_BYTES,
  END_STREAM_FLAG,
  createEnvelopeReader,
  encodeEnvelope,
  writeEnvelopeHead,
} from "./envelope.ts";

export type ProcessEvent = MessageInitShape<typeof ProcessEventSchema>;
export type OutputName = "stdout" | "stderr" | "pty";
/** How a client wants its messages. */
export type Codec = "json" | "binary";

/** No event carries more output than this. */
const MAX_CHUNK_BYTES = { stdout: 32_768, stderr: 32_768, pty: 16_384 } as const;
/** The numbers of the fields in the messages around the bytes, each followed by a length. */
const OUTPUT_TAG = { stdout: 0x0a, stderr: 0x12, pty: 0x1a } as const;
const DATA_TAG = 0x12;
const EVENT_TAG = 0x0a;
/** The largest event that is sent has 32 KiB of output. */
const MAX_MESSAGE_BYTES = 1024 * 1024;

/** A Start request as the binary body of its stream. */
export function encodeStart(request: MessageInitShape<typeof StartRequestSchema>): Buffer {
  return encodeEnvelope(toBinary(StartRequestSchema, create(StartRequestSchema, request)));
}

/** A Connect request as the binary body of its stream. */
export function encodeConnect(request: MessageInitShape<typeof ConnectRequestSchema>): Buffer {
  return encodeEnvelope(toBinary(ConnectRequestSchema, create(ConnectRequestSchema, request)));
}

/**
 * The replies in a binary stream. Their output is a view, good until the next one is asked for.
 * @throws ConnectError as which the peer ended the stream, unavailable when it broke off;
 *   SandboxError internal, resource_exhausted for what no peer of ours sends.
 */
export async function* readEvents(
  chunks: AsyncIterable<Uint8Array>,
  limits: JsonLimits,
): AsyncGenerator<StartResponse, void> {
  const reader = createEnvelopeReader({ maxBytes: MAX_MESSAGE_BYTES });
  const turns = createLoopTurns();
  let isOver = false;
  for await (const chunk of chunks) {
    for (const { flags, message } of reader.read(chunk)) {
      const turn = turns();
      if (turn !== undefined) await turn;
      if (isOver) throw unexpectedReply("a message after the end of the stream");
      isOver = (flags & END_STREAM_FLAG) !== 0;
      if (isOver) requireGoodEnd(message, limits);
      else if (flags === 0) yield decodeEvent(message);
      else throw unexpectedReply(`an envelope with the flags ${flags}`);
    }
  }
  if (reader.rest() !== undefined) throw new ConnectError("the stream broke off", Code.Unavailable);
  if (!isOver) throw new ConnectError("stream without an end", Code.Unavailable);
}

function decodeEvent(message: Uint8Array): StartResponse {
  try {
    return fromBinary(StartResponseSchema, message, { readUnknownFields: false });
  } catch (error) {
    throw unexpectedReply(errorText(error), { cause: error });
  }
}

/** @throws ConnectError as which the peer ended the stream. */
function requireGoodEnd(message: Uint8Array, limits: JsonLimits): void {
  let end: ReturnType<typeof endStreamFromJson>;
  try {
    createJsonGauge(limits)(message);
    end = endStreamFromJson(message);
  } catch (error) {
    throw unexpectedReply(errorText(error), { cause: error });
  }
  if (end.error !== undefined) throw end.error;
}

/** What a process printed, as one envelope or several. */
export function encodeOutput(name: OutputName, bytes: Buffer, codec: Codec): Buffer {
  const form = codec === "json" ? JSON_FORM : BINARY_FORM;
  const maxBytes = MAX_CHUNK_BYTES[name];
  const chunks: Buffer[] = [];
  for (let start = 0; start < bytes.length;) {
    const limit = start + maxBytes;
    const end = limit < bytes.length ? characterCut(bytes, limit) : bytes.length;
    chunks.push(bytes.subarray(start, end));
    start = end;
  }
  const size = chunks.reduce(
    (sum, chunk) => sum + ENVELOPE_HEAD_BYTES + form.measure(name, chunk.length),
    0,
  );
  const envelopes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const chunk of chunks) {
    const start = at + ENVELOPE_HEAD_BYTES;
    const end = form.write(envelopes, { name, chunk }, start);
    writeEnvelopeHead(envelopes, { at, length: end - start });
    at = end;
  }
  return envelopes;
}

/** Any other event. */
export function encodeEvent(event: ProcessEvent, codec: Codec): Buffer {
  const message = create(StartResponseSchema, { event });
  const body =
    codec === "json"
      ? toJsonString(StartResponseSchema, message)
      : toBinary(StartResponseSchema, message);
  return encodeEnvelope(body);
}

interface Output {
  readonly name: OutputName;
  readonly chunk: Buffer;
}

/** How messages are written: their length, and their bytes from `at` on, up to what it returns. */
interface Form {
  measure(name: OutputName, length: number): number;
  write(target: Buffer, output: Output, at: number): number;
}

const JSON_HEAD = {
  stdout: '{"event":{"data":{"stdout":"',
  stderr: '{"event":{"data":{"stderr":"',
  pty: '{"event":{"data":{"pty":"',
} as const;
const JSON_TAIL = '"}}}';

const JSON_FORM: Form = {
  measure: (name, length) => JSON_HEAD[name].length + 4 * Math.ceil(length / 3) + JSON_TAIL.length,
  write(target, { name, chunk }, start) {
    let at = start;
    at += target.write(JSON_HEAD[name], at, "latin1");
    at += target.write(chunk.toString("base64"), at, "latin1");
    return at + target.write(JSON_TAIL, at, "latin1");
  },
};

const BINARY_FORM: Form = {
  measure: (_name, length) => fieldBytes(fieldBytes(fieldBytes(length))),
  write(target, { name, chunk }, start) {
    const output = fieldBytes(chunk.length);
    let at = writeField(target, { tag: EVENT_TAG, length: fieldBytes(output) }, start);
    at = writeField(target, { tag: DATA_TAG, length: output }, at);
    at = writeField(target, { tag: OUTPUT_TAG[name], length: chunk.length }, at);
    return at + chunk.copy(target, at);
  },
};

/** A field's own size: its tag, its length with seven bits a byte, its content. */
function fieldBytes(length: number): number {
  let size = 2 + length;
  for (let rest = length >>> 7; rest > 0; rest >>>= 7) size += 1;
  return size;
}

/** Returns where the field's content begins. */
function writeField(
  target: Buffer,
  field: { readonly tag: number; readonly length: number },
  start: number,
): number {
  let at = target.writeUInt8(field.tag, start);
  let rest = field.length;
  for (; rest > 0x7f; rest >>>= 7) at = target.writeUInt8((rest & 0x7f) | 0x80, at);
  return target.writeUInt8(rest, at);
}
