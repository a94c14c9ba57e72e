/**
 * The events of a process as envelopes of its streams, ready to be sent. The replies of Start and
 * Connect are alike, so the same bytes serve every reader of a codec; output, which is nearly all
 * of it, is put together by hand and never becomes a message.
 */

import { create, toBinary, toJsonString, type MessageInitShape } from "@bufbuild/protobuf";
import { StartResponseSchema, type ProcessEventSchema } from "../../gen/process/process_pb.ts";

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
/** A flag byte, and the length in four bytes. */
const HEAD_BYTES = 5;

/** What a process printed, as one envelope or several. */
export function encodeOutput(name: OutputName, bytes: Buffer, codec: Codec): Buffer {
  const form = codec === "json" ? JSON_FORM : BINARY_FORM;
  const maxBytes = MAX_CHUNK_BYTES[name];
  const chunks: Buffer[] = [];
  for (let start = 0; start < bytes.length; start += maxBytes) {
    chunks.push(bytes.subarray(start, start + maxBytes));
  }
  const size = chunks.reduce(
    (sum, chunk) => sum + HEAD_BYTES + form.measure(name, chunk.length),
    0,
  );
  const envelopes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const chunk of chunks) {
    const start = at + HEAD_BYTES;
    const end = form.write(envelopes, { name, chunk }, start);
    writeHead(envelopes, { at, length: end - start });
    at = end;
  }
  return envelopes;
}

/** Any other event. */
export function encodeEvent(event: ProcessEvent, codec: Codec): Buffer {
  const message = create(StartResponseSchema, { event });
  const body =
    codec === "json"
      ? Buffer.from(toJsonString(StartResponseSchema, message))
      : toBinary(StartResponseSchema, message);
  const envelope = Buffer.allocUnsafe(HEAD_BYTES + body.length);
  writeHead(envelope, { at: 0, length: body.length });
  envelope.set(body, HEAD_BYTES);
  return envelope;
}

function writeHead(
  target: Buffer,
  { at, length }: { readonly at: number; readonly length: number },
): void {
  target.writeUInt8(0, at);
  target.writeUInt32BE(length, at + 1);
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
