/** One question and its reply in the form of RFC 1035; all else that a message may hold is ignored. */

import { toHostName } from "./host-names.ts";

const HEADER_BYTES = 12;
const MAX_LABEL_BYTES = 63;
const CLASS_INTERNET = 1;
const TYPE_ADDRESS = 1;
const RECORD_BYTES = 16;
/** Where the name of the question stands, as a pointer of a record. */
const NAME_POINTER = 0xc000 + HEADER_BYTES;

export const REPLY_CODES = { ok: 0, malformed: 1, failed: 2, noName: 3, notOffered: 4 } as const;

export interface Question {
  readonly id: number;
  /** The question section as it came. */
  readonly bytes: Buffer;
  /** Undefined for what is no name of a host. */
  readonly name: string | undefined;
  readonly asksAddress: boolean;
  readonly wantsRecursion: boolean;
}

/** The question of a message; undefined when it is none, and deserves no reply. */
export function parseQuestion(message: Buffer): Question | undefined {
  if (message.length < HEADER_BYTES) return undefined;
  const flags = message.readUInt16BE(2);
  const isPlainQuery = (flags & 0xf800) === 0;
  if (!isPlainQuery || message.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (;;) {
    const length = message[at];
    // A pointer has no place in a question, and an end is due within the message.
    if (length === undefined || length > MAX_LABEL_BYTES) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.toString("latin1", at, at + length));
    at += length;
  }
  if (at + 4 > message.length) return undefined;
  // A dot within a label would make two names look alike.
  const isAmbiguous = labels.some((label) => label.includes("."));
  return {
    id: message.readUInt16BE(0),
    bytes: message.subarray(HEADER_BYTES, at + 4),
    name: isAmbiguous ? undefined : toHostName(labels.join(".")),
    asksAddress:
      message.readUInt16BE(at) === TYPE_ADDRESS && message.readUInt16BE(at + 2) === CLASS_INTERNET,
    wantsRecursion: (flags & 0x0100) !== 0,
  };
}

export interface Answer {
  readonly code: number;
  readonly addresses: readonly string[];
  readonly ttlSeconds: number;
}

/** The reply to a question, with an address record for each address. */
export function writeReply(question: Question, { code, addresses, ttlSeconds }: Answer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt16BE(question.id, 0);
  // A response, recursion available.
  header.writeUInt16BE(0x8080 | (question.wantsRecursion ? 0x0100 : 0) | code, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses.length, 6);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(RECORD_BYTES);
    record.writeUInt16BE(NAME_POINTER, 0);
    record.writeUInt16BE(TYPE_ADDRESS, 2);
    record.writeUInt16BE(CLASS_INTERNET, 4);
    record.writeUInt32BE(ttlSeconds, 6);
    record.writeUInt16BE(4, 10);
    record.set(address.split(".").map(Number), 12);
    return record;
  });
  return Buffer.concat([header, question.bytes, ...records]);
}
