/**
 * Reads a multipart body part by part while it arrives. Nothing is kept but the headers of one
 * part and the piece of content in which a delimiter could begin.
 */

import { isUtf8 } from "node:buffer";
import { SandboxError } from "../../common/errors.ts";

export interface Part {
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** The content; what is left of it is skipped when the next part is asked for. */
  readonly body: AsyncGenerator<Buffer>;
}

/** The headers of one part; a path has at most 4 KiB, in the worst encoding three times that. */
const MAX_HEADER_BYTES = 16_384;
/** What may stand before the first delimiter. */
const MAX_PREAMBLE_BYTES = 65_536;
/** Parts of one body: each may be a file, and each is a turn of work. */
const MAX_PARTS = 10_000;
const MAX_BOUNDARY_CHARACTERS = 256;

const LINE_END = Buffer.from("\r\n");
const HEADERS_END = Buffer.from("\r\n\r\n");
const DASH = 0x2d;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;

/**
 * The parts of a body.
 * @throws SandboxError internal for a body that is cut off or malformed, invalid_argument for
 *   headers in another encoding, while it is read.
 */
export async function* readParts(
  source: AsyncIterator<Buffer>,
  boundary: string,
): AsyncGenerator<Part> {
  if (boundary.length > MAX_BOUNDARY_CHARACTERS) throw malformed("boundary is too long");
  const input = new Input(source, boundary);
  await input.skipPreamble();
  for (let count = 0; await input.hasPart(); count += 1) {
    if (count >= MAX_PARTS) throw malformed(`more than ${MAX_PARTS} parts`);
    const headers = parseHeaders(await input.readHeaders());
    yield { headers, body: input.readBody() };
    await skip(input.readBody());
  }
}

async function skip(chunks: AsyncGenerator<Buffer>): Promise<void> {
  while ((await chunks.next()).done !== true);
}

/** The bytes of a body, with the delimiter in mind. */
class Input {
  readonly #source: AsyncIterator<Buffer>;
  readonly #delimiter: Buffer;
  /** The very first delimiter follows no line end of the body, so it gets one here. */
  #buffer: Buffer = LINE_END;
  #isInBody = true;

  constructor(source: AsyncIterator<Buffer>, boundary: string) {
    this.#source = source;
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  }

  async skipPreamble(): Promise<void> {
    let skipped = 0;
    for await (const chunk of this.readBody()) {
      skipped += chunk.length;
      if (skipped > MAX_PREAMBLE_BYTES) throw malformed("no delimiter at the beginning");
    }
  }

  /** Called behind a delimiter: whether it begins another part or ends the body. */
  async hasPart(): Promise<boolean> {
    await this.#need(2);
    if (this.#buffer[0] === DASH && this.#buffer[1] === DASH) return false;
    const end = await this.#find(LINE_END);
    this.#buffer = this.#buffer.subarray(end);
    return true;
  }

  /** The header lines of a part; the buffer starts with the line end before them. */
  async readHeaders(): Promise<string> {
    const end = await this.#find(HEADERS_END);
    const bytes = this.#buffer.subarray(0, end);
    if (!isUtf8(bytes)) {
      const message = "error reading form: headers of a part are not in UTF-8";
      throw new SandboxError("invalid_argument", message);
    }
    const text = bytes.toString("utf8");
    this.#buffer = this.#buffer.subarray(end + HEADERS_END.length);
    this.#isInBody = true;
    return text;
  }

  /** Content up to the next delimiter, which is taken too. */
  async *readBody(): AsyncGenerator<Buffer> {
    while (this.#isInBody) {
      const found = await this.#findDelimiter();
      const chunk = this.#buffer.subarray(0, found.end);
      this.#buffer = this.#buffer.subarray(found.next);
      this.#isInBody = !found.isLast;
      if (chunk.length > 0) yield chunk;
    }
  }

  /** Where content ends and what follows begins; not last when only a part of it is certain. */
  async #findDelimiter(): Promise<{ end: number; next: number; isLast: boolean }> {
    const { length } = this.#delimiter;
    for (let from = 0; ;) {
      const at = this.#buffer.indexOf(this.#delimiter, from);
      if (at === -1) {
        // A delimiter could begin in the last bytes and end in the next chunk.
        const certain = this.#buffer.length - length + 1;
        if (certain > 0) return { end: certain, next: certain, isLast: false };
        await this.#more();
      } else {
        await this.#need(at + length + 1);
        if (this.#endsDelimiter(at + length)) return { end: at, next: at + length, isLast: true };
        from = at + 1;
      }
    }
  }

  /** Whether a delimiter ends here, and is not the beginning of a longer word. */
  #endsDelimiter(index: number): boolean {
    const byte = this.#buffer[index];
    return byte === CR || byte === DASH || byte === SPACE || byte === TAB;
  }

  async #find(text: Buffer): Promise<number> {
    for (;;) {
      const at = this.#buffer.indexOf(text);
      if (at !== -1) return at;
      if (this.#buffer.length > MAX_HEADER_BYTES) throw malformed("headers of a part are too long");
      await this.#more();
    }
  }

  async #need(length: number): Promise<void> {
    while (this.#buffer.length < length) await this.#more();
  }

  async #more(): Promise<void> {
    const next = await this.#source.next();
    if (next.done === true) throw malformed("unexpected EOF");
    this.#buffer =
      this.#buffer.length === 0 ? next.value : Buffer.concat([this.#buffer, next.value]);
  }
}

function parseHeaders(text: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const name = line.slice(0, colon).trim().toLowerCase();
    if (!headers.has(name)) headers.set(name, line.slice(colon + 1).trim());
  }
  return headers;
}

function malformed(reason: string): SandboxError {
  return new SandboxError("internal", `error reading form: ${reason}`);
}
