/**
 * File sizes as JSON numbers, past the library, whose JSON form of 64 bits is a string without an
 * option. The wire calls `size` an integer; every reader of protobuf's form takes a number too. Such
 * a reply becomes text here and nowhere else: the library gets an empty message in its place.
 */

import { create, toJson, type DescMessage, type JsonValue, type Message } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextKey,
  type ContextKey,
  type Interceptor,
} from "@connectrpc/connect";
import { createAsyncIterable, type UniversalServerResponse } from "@connectrpc/connect/protocol";
import { Filesystem } from "../gen/filesystem/filesystem_pb.ts";
import { parseContentType } from "./content-type.ts";

/** Where the reply of one call waits for the place of the library's. */
export interface ReplySlot {
  /** Undefined unless the reply is JSON of the filesystem service. */
  text?: Buffer;
}

/** Travels with each RPC from the server to the interceptor. */
export const replySlotKey: ContextKey<ReplySlot | undefined> = createContextKey<
  ReplySlot | undefined
>(undefined);

/** Encodes the JSON replies of the filesystem service. @throws ConnectError resource_exhausted */
export function encodeNumericSizes(maxBytes: number): Interceptor {
  return (next) => async (request) => {
    const response = await next(request);
    const slot = request.contextValues.get(replySlotKey);
    const type = parseContentType(request.header.get("content-type") ?? "");
    const isOther = request.service.typeName !== Filesystem.typeName || type?.isBinary !== false;
    if (response.stream || slot === undefined || isOther) return response;
    const { output } = request.method;
    slot.text = encode(output, response.message, maxBytes);
    return { ...response, message: create(output) };
  };
}

/** The reply with the text of the slot in the place of its body, if there is one and it succeeded. */
export function withSlot(
  reply: UniversalServerResponse,
  { text }: ReplySlot,
): UniversalServerResponse {
  if (text === undefined || reply.status !== 200) return reply;
  const header = new Headers(reply.header);
  header.set("content-length", String(text.length));
  return { ...reply, header, body: createAsyncIterable([text]) };
}

/** The largest number that a reader can take for one of 64 bits: the next one is beyond them. */
const MAX_SIZE = 2 ** 63 - 1024;

type JsonRecord = Readonly<Record<string, JsonValue>>;

/** Item by item: escapes make up to six characters of one, and the whole could not be held. */
function encode(schema: DescMessage, message: Message, maxBytes: number): Buffer {
  const { entry, entries, events, ...others } = toRecord(toJson(schema, message));
  let bytes = 0;
  const count = (text: string) => {
    bytes += Buffer.byteLength(text);
    if (bytes > maxBytes) throw tooLarge(bytes, maxBytes);
    return text;
  };
  const toText = (name: string, value: JsonValue) =>
    count(`,${JSON.stringify(name)}:`) + count(JSON.stringify(value));
  const toListText = (name: string, items: readonly JsonRecord[]) =>
    `,"${name}":[${items.map((item) => count(JSON.stringify(item))).join(",")}]`;
  const fields = [
    entry === undefined ? "" : toText("entry", withNumber(entry)),
    entries === undefined ? "" : toListText("entries", toList(entries).map(withNumber)),
    events === undefined ? "" : toListText("events", toList(events).map(toEvent)),
    ...Object.entries(others).map(([name, value]) => toText(name, value)),
  ];
  const text = Buffer.from(`{${fields.join("").slice(1)}}`);
  if (text.length > maxBytes) throw tooLarge(text.length, maxBytes);
  return text;
}

/** In the words of the library, which has not seen this reply. */
function tooLarge(bytes: number, maxBytes: number): ConnectError {
  const fault = `message size ${bytes} is larger than configured writeMaxBytes ${maxBytes}`;
  return new ConnectError(fault, Code.ResourceExhausted);
}

function toEvent(event: JsonValue): JsonRecord {
  const { entry, ...others } = toRecord(event);
  return { ...(entry !== undefined && { entry: withNumber(entry) }), ...others };
}

/** The size comes first on this wire. */
function withNumber(entry: JsonValue): JsonRecord {
  const { size, ...others } = toRecord(entry);
  return { ...(size !== undefined && { size: Math.min(Number(size), MAX_SIZE) }), ...others };
}

function toRecord(value: JsonValue): JsonRecord {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new TypeError("a message is no object in JSON");
}

function toList(value: JsonValue): readonly JsonValue[] {
  if (Array.isArray(value)) return value;
  throw new TypeError("a repeated field is no list in JSON");
}
