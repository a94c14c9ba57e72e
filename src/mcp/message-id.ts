/** The id of a JSON-RPC message, of one that was parsed or of one that is too large to parse. */

import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from "../common/json-syntax.ts";

export type MessageId = string | number;

export interface IdFinder {
  /** Looks at the next piece of the message. */
  add(bytes: Uint8Array): void;
  /** The value of the member `id` of the outermost object. */
  readonly id: MessageId | undefined;
}

/** No id of a host is longer; a member above this is another one. */
const MAX_MEMBER_BYTES = 256;

/** A finder for one message that comes in pieces. */
export function createIdFinder(): IdFinder {
  let id: MessageId | undefined;
  let depth = 0;
  let isInString = false;
  let isEscaped = false;
  /** The start of the member at the outermost level. */
  let member: number[] = [];

  function endMember(): void {
    if (member.length <= MAX_MEMBER_BYTES) id = idOfMember(Buffer.from(member)) ?? id;
    member = [];
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
      // An iterator takes three times as long.
      for (let at = 0; at < bytes.length; at += 1) {
        const byte = bytes[at] ?? 0;
        if (isInString ? judgeString(byte) : judge(byte)) endMember();
        else if (depth >= 1 && member.length <= MAX_MEMBER_BYTES) member.push(byte);
      }
    },
  };
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
