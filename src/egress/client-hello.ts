/** The server name in the first message of a TLS connection, read without taking part in it. */

import { toHostName } from "./host-names.ts";

const RECORD_HEADER_BYTES = 5;
const RECORD_HANDSHAKE = 22;
const MAX_RECORD_BYTES = 16_384;
const HANDSHAKE_HEADER_BYTES = 4;
const CLIENT_HELLO = 1;
const VERSION_AND_RANDOM_BYTES = 34;
const EXTENSION_SERVER_NAME = 0;
const NAME_TYPE_HOST = 0;
/** Many times what a client sends, also with keys of the largest kind. */
const MAX_HELLO_BYTES = 65_536;

/** `more`: not all of it is there yet. `refused`: it names no host, or in an ambiguous way. */
export type ServerName =
  | { readonly kind: "more" | "refused" }
  | { readonly kind: "name"; readonly name: string };

const MORE = { kind: "more" } as const;
const REFUSED = { kind: "refused" } as const;

/** Looks at everything that a client has sent so far. */
export function readServerName(sent: Buffer): ServerName {
  const parts: Buffer[] = [];
  let at = 0;
  // Other records may follow the message, such as data that a client sends early.
  while (at < sent.length && sent[at] === RECORD_HANDSHAKE) {
    if (at + RECORD_HEADER_BYTES > sent.length) break;
    const length = sent.readUInt16BE(at + 3);
    if (sent[at + 1] !== 3 || length === 0 || length > MAX_RECORD_BYTES) return REFUSED;
    const start = at + RECORD_HEADER_BYTES;
    parts.push(sent.subarray(start, start + length));
    at = start + length;
  }
  const found = readHandshake(Buffer.concat(parts));
  const isBroken = at < sent.length && sent[at] !== RECORD_HANDSHAKE;
  return isBroken && found.kind === "more" ? REFUSED : found;
}

function readHandshake(bytes: Buffer): ServerName {
  if (bytes.length < HANDSHAKE_HEADER_BYTES) return MORE;
  if (bytes[0] !== CLIENT_HELLO) return REFUSED;
  const length = bytes.readUIntBE(1, 3);
  if (length > MAX_HELLO_BYTES) return REFUSED;
  const hello = bytes.subarray(HANDSHAKE_HEADER_BYTES, HANDSHAKE_HEADER_BYTES + length);
  if (hello.length < length) return MORE;
  try {
    return readHello(createReader(hello));
  } catch (error) {
    if (error instanceof RangeError) return REFUSED;
    throw error;
  }
}

/** @throws RangeError when a length inside leads beyond the end. */
function readHello(hello: Reader): ServerName {
  hello.take(VERSION_AND_RANDOM_BYTES);
  hello.take(hello.number(1));
  hello.take(hello.number(2));
  hello.take(hello.number(1));
  const extensions = createReader(hello.take(hello.number(2)));
  const names: string[] = [];
  while (!extensions.isEmpty()) {
    const type = extensions.number(2);
    const body = extensions.take(extensions.number(2));
    if (type === EXTENSION_SERVER_NAME) names.push(...readNames(createReader(body)));
  }
  const [name = ""] = names;
  const canonical = toHostName(name);
  // Two names, or bytes after the last one, could be read in two ways.
  if (names.length !== 1 || canonical === undefined || !hello.isEmpty()) return REFUSED;
  return { kind: "name", name: canonical };
}

function readNames(body: Reader): string[] {
  const list = createReader(body.take(body.number(2)));
  const names: string[] = [];
  while (!list.isEmpty()) {
    const type = list.number(1);
    const name = list.take(list.number(2)).toString("latin1");
    names.push(type === NAME_TYPE_HOST ? name : "");
  }
  return body.isEmpty() ? names : [];
}

interface Reader {
  number(sizeBytes: 1 | 2): number;
  take(length: number): Buffer;
  isEmpty(): boolean;
}

function createReader(bytes: Buffer): Reader {
  let at = 0;
  const take = (length: number) => {
    if (at + length > bytes.length) throw new RangeError("a length leads beyond the end");
    at += length;
    return bytes.subarray(at - length, at);
  };
  return {
    take,
    number: (sizeBytes) => take(sizeBytes).readUIntBE(0, sizeBytes),
    isEmpty: () => at === bytes.length,
  };
}
