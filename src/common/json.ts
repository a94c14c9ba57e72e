/** What a JSON text would become, judged before it is parsed: few bytes can stand for much memory. */

import { SandboxError } from "./errors.ts";

/** Looks at the next piece of a text. @throws SandboxError invalid_argument, resource_exhausted */
export type JsonGauge = (bytes: Uint8Array) => void;

/** No message of ours is deeper than ten; a parser of nested calls could run out of stack. */
const MAX_DEPTH = 64;
/** Values of all kinds: some megabytes and a tenth of a second, whatever they are. */
const MAX_VALUES = 32_768;

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSE: ReadonlySet<number> = new Set([0x5d, 0x7d]);

/** A gauge for one text, which may come in pieces. Text that is no JSON is for the parser to tell. */
export function createJsonGauge(): JsonGauge {
  let isInString = false;
  let isEscaped = false;
  let depth = 0;
  let values = 1;

  function judge(byte: number): void {
    if (byte === QUOTE) isInString = true;
    else if (byte === COMMA) values += 1;
    else if (OPEN.has(byte)) {
      depth += 1;
      values += 1;
    } else if (CLOSE.has(byte)) depth -= 1;
    if (depth > MAX_DEPTH) {
      throw new SandboxError("invalid_argument", `JSON has more than ${MAX_DEPTH} levels`);
    }
    if (values > MAX_VALUES) {
      throw new SandboxError("resource_exhausted", `JSON has more than ${MAX_VALUES} values`);
    }
  }

  return (bytes) => {
    for (const byte of bytes) {
      if (!isInString) judge(byte);
      else if (isEscaped) isEscaped = false;
      else if (byte === BACKSLASH) isEscaped = true;
      else if (byte === QUOTE) isInString = false;
    }
  };
}

/**
 * The value of a JSON text that is neither too deep nor too rich.
 * @throws SandboxError invalid_argument, resource_exhausted; SyntaxError when it is no JSON
 */
export function parseJson(bytes: Uint8Array): unknown {
  createJsonGauge()(bytes);
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
}
