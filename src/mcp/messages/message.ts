/** What is a JSON-RPC message, and the answer to what is none. */

import { parseJSONRPCMessage, type JSONRPCMessage } from "@modelcontextprotocol/server";
import { idOf, type MessageId } from "./message-id.ts";

export const PARSE_ERROR = -32_700;
export const INVALID_REQUEST = -32_600;

/** A message that gets an error as its answer. */
export class Refusal {
  readonly reply: object;

  constructor(code: number, text: string, id?: MessageId) {
    this.reply = { jsonrpc: "2.0", id: id ?? null, error: { code, message: text } };
  }
}

/** The message of a JSON value; undefined for a faulty reply, which gets no answer. */
export function toMessage(value: unknown): JSONRPCMessage | Refusal | undefined {
  const isObject = typeof value === "object" && value !== null;
  try {
    // The SDK takes a request with an id of null for a notification.
    const hasNoId = isObject && "method" in value && "id" in value && idOf(value) === undefined;
    if (!hasNoId) return parseJSONRPCMessage(value);
  } catch {
    // The parser's words are about its schemas; the reply says what a message is.
    if (isObject && !("method" in value) && ("result" in value || "error" in value)) {
      return undefined;
    }
  }
  const text = "Invalid request: neither a request nor a notification of JSON-RPC 2.0";
  return new Refusal(INVALID_REQUEST, text, idOf(value));
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Text without a byte order mark at its start. */
export function withoutMark(bytes: Buffer): Buffer {
  const hasMark = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  return hasMark ? bytes.subarray(BYTE_ORDER_MARK.length) : bytes;
}
