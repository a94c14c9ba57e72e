/** What a JSON text would become, judged before it is parsed: few bytes can stand for much memory. */

import { isUtf8 } from "node:buffer";
import { SandboxError } from "./errors.ts";
import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from "./json-syntax.ts";
import type { z } from "./schema.ts";

/** Looks at the next piece of a text. @throws SandboxError invalid_argument, resource_exhausted */
export type JsonGauge = (bytes: Uint8Array) => void;

export interface JsonLimits {
  /** Values of all kinds, members and items alike. */
  readonly maxValues?: number;
  /** Bytes of one string as it is written; without it a string may be as long as the text. */
  readonly maxStringBytes?: number;
}

/** No message of ours is deeper than ten; a parser of nested calls could run out of stack. */
const MAX_DEPTH = 64;
/** For requests: some megabytes and a tenth of a second, whatever they are. */
const MAX_VALUES = 32_768;

/** A gauge for one text, which may come in pieces. Text that is no JSON is for the parser to tell. */
export function createJsonGauge(limits: JsonLimits = {}): JsonGauge {
  const { maxValues = MAX_VALUES, maxStringBytes = Number.POSITIVE_INFINITY } = limits;
  let isInString = false;
  let stringBytes = 0;
  let isEscaped = false;
  let depth = 0;
  let values = 1;

  function addValue(levels: 0 | 1): void {
    values += 1;
    depth += levels;
    if (depth > MAX_DEPTH) {
      throw new SandboxError("invalid_argument", `JSON has more than ${MAX_DEPTH} levels`);
    }
    if (values > maxValues) {
      throw new SandboxError("resource_exhausted", `JSON has more than ${maxValues} values`);
    }
  }

  function addText(length: number): void {
    stringBytes += length;
    if (stringBytes > maxStringBytes) {
      const message = `JSON has a string of more than ${maxStringBytes} bytes`;
      throw new SandboxError("resource_exhausted", message);
    }
  }

  function judge(byte: number): void {
    if (byte === QUOTE) {
      isInString = true;
      stringBytes = 0;
    } else if (byte === COMMA) addValue(0);
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) addValue(1);
    else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth -= 1;
  }

  return (bytes) => {
    const next = createFinder(bytes);
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0;
      if (!isInString) {
        if (IS_PLAIN[byte] !== 1) judge(byte);
      } else if (isEscaped) isEscaped = false;
      else if (byte === BACKSLASH) isEscaped = true;
      else if (byte === QUOTE) isInString = false;
      else {
        const end = endOfText(bytes, at, next);
        addText(end - at);
        at = end - 1;
      }
    }
  };
}

/** By byte, 1 for those that are passed over: a look at each of megabytes must take a nanosecond. */
function allBut(bytes: readonly number[]): Uint8Array {
  return new Uint8Array(256).fill(1).map((passed, byte) => (bytes.includes(byte) ? 0 : passed));
}

const IS_PLAIN = allBut([QUOTE, COMMA, OPEN_ARRAY, OPEN_OBJECT, CLOSE_ARRAY, CLOSE_OBJECT]);
const IS_TEXT = allBut([QUOTE, BACKSLASH]);
/** In a shorter text a look at each byte is faster than a search for two. */
const SHORT_BYTES = 64;

/** Most of a document is in its strings, and of them only two bytes count. */
function endOfText(bytes: Uint8Array, from: number, next: Finder): number {
  const short = Math.min(bytes.length, from + SHORT_BYTES);
  let at = from;
  while (at < short && IS_TEXT[bytes[at] ?? 0] === 1) at += 1;
  return at < short ? at : Math.min(next.quote(at), next.backslash(at));
}

type Finder = ReturnType<typeof createFinder>;

/** Where a byte comes next from a place on, which only ever grows; the end when it does not. */
function createFinder(bytes: Uint8Array) {
  function find(byte: number): (from: number) => number {
    let known = -1;
    return (from) => {
      if (known < from) {
        const found = bytes.indexOf(byte, from);
        known = found === -1 ? bytes.length : found;
      }
      return known;
    };
  }
  return { quote: find(QUOTE), backslash: find(BACKSLASH) };
}

/** The value of a JSON text of a size that is known; undefined for any other text, such as half of one. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** As `parseJson`, of what the schema describes; undefined for any other text. */
export function tryParseAs<T>(bytes: Uint8Array, schema: z.ZodType<T>): T | undefined {
  try {
    return schema.safeParse(parseJson(bytes)).data;
  } catch {
    return undefined;
  }
}

/**
 * The value of a JSON text that is neither too deep nor too rich. Bytes of another encoding would
 * become other text without a word (RFC 8259, 8.1).
 * @throws SandboxError invalid_argument, resource_exhausted; SyntaxError when it is no JSON
 */
export function parseJson(bytes: Uint8Array, limits: JsonLimits = {}): unknown {
  createJsonGauge(limits)(bytes);
  if (!isUtf8(bytes)) throw new SandboxError("invalid_argument", "JSON is not in UTF-8");
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
}
