/** The id of a JSON-RPC message, of one that was parsed or of one that is too large to parse. */

import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from "../../common/json-syntax.ts";

export type MessageId = string | number;

export interface IdFinder {
  /** Looks at the next piece of the message. */
  add(bytes: Uint8Array): void;
  /** The value of the member `id` of the outermost object. */
  readonly id: MessageId | undefined;
}

/** No id of a host is longer; a member above this is another one. */
const MAX_MEMBER_BYTES = 256;
/** A message has one; a member that is parsed in vain costs as much as a thousand bytes. */
const MAX_ID_MEMBERS = 64;

/** What ends a run of bytes outside of strings and in them. */
const PLAIN_ENDS = tableOf(QUOTE, COMMA, OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY);
const STRING_ENDS = tableOf(QUOTE, BACKSLASH);

function tableOf(...bytes: readonly number[]): Uint8Array {
  const table = new Uint8Array(256);
  for (const byte of bytes) table[byte] = 1;
  return table;
}

/** A finder for one message that comes in pieces; a mebibyte takes at most some 20 ms, whatever is in it. */
export function createIdFinder(): IdFinder {
  let id: MessageId | undefined;
  let depth = 0;
  let isInString = false;
  let isEscaped = false;
  let idMembers = 0;
  /** The start of the member at the outermost level. */
  const member = Buffer.alloc(MAX_MEMBER_BYTES + 1);
  let memberBytes = 0;

  function keep(bytes: Uint8Array, start: number, end: number): void {
    if (depth < 1) return;
    const last = Math.min(end, start + member.length - memberBytes);
    for (let at = start; at < last; at += 1) {
      member[memberBytes] = bytes[at] ?? 0;
      memberBytes += 1;
    }
  }

  function endMember(): void {
    const length = memberBytes;
    memberBytes = 0;
    if (length > MAX_MEMBER_BYTES || !mayBeId(member, length)) return;
    idMembers += 1;
    if (idMembers <= MAX_ID_MEMBERS) id = idOfMember(member.subarray(0, length)) ?? id;
  }

  /** Whether a syntax byte is at the start or end of a member of the outermost object. */
  function judge(byte: number): boolean {
    if (byte === QUOTE) isInString = true;
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth -= 1;
    if (byte === COMMA || byte === OPEN_OBJECT) return depth === 1;
    return byte === CLOSE_OBJECT && depth === 0;
  }

  function judgeString(byte: number): boolean {
    if (isEscaped) isEscaped = false;
    else if (byte === BACKSLASH) isEscaped = true;
    else if (byte === QUOTE) isInString = false;
    return false;
  }

  return {
    get id() {
      return id;
    },
    add(bytes) {
      for (let at = 0; at < bytes.length; at += 1) {
        if (!isEscaped) {
          const start = at;
          const ends = isInString ? STRING_ENDS : PLAIN_ENDS;
          while (at < bytes.length && ends[bytes[at] ?? 0] === 0) at += 1;
          if (start < at) keep(bytes, start, at);
        }
        if (at === bytes.length) return;
        const byte = bytes[at] ?? 0;
        if (isInString ? judgeString(byte) : judge(byte)) endMember();
        else keep(bytes, at, at + 1);
      }
    },
  };
}

const BLANKS = tableOf(0x20, 0x09, 0x0a, 0x0d);
const LETTER_I = 0x69;

/** By its first letter, which may be escaped: most members are others. */
function mayBeId(member: Uint8Array, length: number): boolean {
  let at = 0;
  while (at < length && BLANKS[member[at] ?? 0] === 1) at += 1;
  const letter = member[at + 1];
  return at + 1 < length && member[at] === QUOTE && (letter === LETTER_I || letter === BACKSLASH);
}

/** The id of a whole message that is not parsed. */
export function findId(message: Uint8Array): MessageId | undefined {
  const finder = createIdFinder();
  finder.add(message);
  return finder.id;
}

function idOfMember(member: Buffer): MessageId | undefined {
  try {
    return idOf(JSON.parse(`{${member.toString("utf8")}}`));
  } catch {
    // The member is cut or is no JSON, so it holds no id.
    return undefined;
  }
}

/**
 * The id of a message; undefined where it has none that a reply can repeat. An integer beyond the
 * safe ones was rounded when it was parsed.
 */
export function idOf(message: unknown): MessageId | undefined {
  if (typeof message !== "object" || message === null || !("id" in message)) return undefined;
  const { id } = message;
  if (typeof id === "string") return id;
  return typeof id === "number" && Math.abs(id) <= Number.MAX_SAFE_INTEGER ? id : undefined;
}
