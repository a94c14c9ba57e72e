/**
 * The opening of a host of the older era, answered from data that was made ahead: the MCP library and
 * the schemas of the tools take longer to load than all the rest of a start. What is not exactly a
 * message of an opening is left, unread, to the library, which hears the opening again.
 */

import { tryParseJson } from "../../common/json.ts";
import type { MessageId } from "../messages/message-id.ts";

/** What the library answers; `npm run generate` writes it. */
export interface OpeningAnswers {
  /** The result of `initialize`, besides the revision that was agreed on. */
  readonly initialize: object;
  /** The tools in the order in which they are listed. */
  readonly tools: readonly object[];
}

/** What the library has to hear once more, and what it has to answer. */
export interface HeardOpening {
  readonly answered: readonly AnsweredLine[];
  /** What came after these. */
  readonly rest: Buffer;
}

export interface AnsweredLine {
  /** With its line feed. */
  readonly bytes: Buffer;
  /** Undefined for a notification. */
  readonly id: MessageId | undefined;
}

export interface OpeningOptions {
  readonly answers: OpeningAnswers;
  /** Sends a line, without its line feed. */
  write(line: string): void;
}

export interface Opening {
  /** Takes what the host sent; false once the opening is over, and the library takes its place. */
  take(chunk: Buffer): boolean;
  /** Whether the tools were listed, by which an opening ends. */
  readonly isListed: boolean;
  /** For the library, once the opening is over. */
  heard(): HeardOpening;
}

/** An opening has three messages; a host that only pings is a matter of the library too. */
const MAX_MESSAGES = 16;
/** Of one message. */
const MAX_MESSAGE_BYTES = 65_536;

const REVISIONS: ReadonlySet<unknown> = new Set([
  "2025-11-25",
  "2025-06-18",
  "2025-03-26",
  "2024-11-05",
]);

const NEWLINE = 0x0a;
const FIRST_OTHER_THAN_ASCII = 0x80;

/** No message was heard yet. */
export function createOpening(options: OpeningOptions): Opening {
  const { answers } = options;
  const answered: AnsweredLine[] = [];
  let rest: Buffer = Buffer.alloc(0);
  let isInitialized = false;
  let isListed = false;

  /** The result of a request, null for a notification, undefined where the library must answer. */
  function resultOf(message: OpeningMessage): object | null | undefined {
    const { method, params } = message;
    if (!isInitialized) {
      const revision = method === "initialize" ? revisionOf(params) : undefined;
      if (revision === undefined || message.id === undefined) return undefined;
      isInitialized = true;
      return { protocolVersion: revision, ...answers.initialize };
    }
    if (!isEmpty(params)) return undefined;
    if (method === "notifications/initialized") return message.id === undefined ? null : undefined;
    if (message.id === undefined) return undefined;
    if (method === "ping") return {};
    if (method !== "tools/list") return undefined;
    isListed = true;
    return { tools: answers.tools };
  }

  /** Whether the line was one of an opening, which is answered then. */
  function answer(bytes: Buffer): boolean {
    const message = answered.length < MAX_MESSAGES ? parseMessage(bytes) : undefined;
    const result = message === undefined ? undefined : resultOf(message);
    if (message === undefined || result === undefined) return false;
    const { id } = message;
    if (result !== null) options.write(JSON.stringify({ result, jsonrpc: "2.0", id }));
    answered.push({ bytes, id });
    return true;
  }

  return {
    get isListed() {
      return isListed;
    },
    take(chunk) {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      for (;;) {
        const end = rest.indexOf(NEWLINE) + 1;
        if (end === 0) return rest.length <= MAX_MESSAGE_BYTES;
        if (!answer(rest.subarray(0, end))) return false;
        rest = rest.subarray(end);
        if (isListed) return false;
      }
    },
    heard: () => ({ answered, rest }),
  };
}

interface OpeningMessage {
  readonly method: unknown;
  readonly id: MessageId | undefined;
  readonly params: unknown;
}

const MEMBERS: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params"]);

/** A request or notification with nothing in it that an opening does not need. */
function parseMessage(bytes: Buffer): OpeningMessage | undefined {
  const isPlain = bytes.every((byte) => byte < FIRST_OTHER_THAN_ASCII);
  const isRead = isPlain && bytes.length <= MAX_MESSAGE_BYTES;
  const value = isRead ? tryParseJson(bytes.toString("latin1")) : undefined;
  if (!isRecord(value) || value["jsonrpc"] !== "2.0") return undefined;
  const id = toId(value["id"]);
  const isKnown = Object.keys(value).every((name) => MEMBERS.has(name));
  // An id that is none, such as null or a fraction, is for the library to refuse.
  if (!isKnown || (id === undefined && "id" in value)) return undefined;
  return { method: value["method"], id, params: value["params"] };
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string";
const isBoolean: Check = (value) => typeof value === "boolean";
const isEmpty: Check = (value) => value === undefined || isRecordOf({})(value);

/** What hosts of this era declare; another ability is for the library to judge. */
const isCapabilities = isRecordOf({
  roots: isRecordOf({ listChanged: isBoolean }),
  sampling: isRecordOf({}),
  elicitation: isRecordOf({ form: isRecordOf({}), url: isRecordOf({}) }),
  experimental: isRecordOf({}),
  extensions: isRecordOf({}),
});

const isClient = isRecordOf({
  name: isText,
  version: isText,
  title: isText,
  websiteUrl: isText,
  description: isText,
});

const isOpeningParams = isRecordOf({
  protocolVersion: (value) => REVISIONS.has(value),
  capabilities: isCapabilities,
  clientInfo: isClient,
});

/** The revision of a valid `initialize` that this server speaks. */
function revisionOf(params: unknown): string | undefined {
  if (!isRecord(params) || !isOpeningParams(params)) return undefined;
  const { protocolVersion, capabilities, clientInfo } = params;
  const isWhole = isRecord(capabilities) && isRecord(clientInfo);
  if (!isWhole || clientInfo["name"] === undefined || clientInfo["version"] === undefined) {
    return undefined;
  }
  return typeof protocolVersion === "string" ? protocolVersion : undefined;
}

function isRecordOf(members: Readonly<Record<string, Check>>): Check {
  return (value) => isRecord(value) && hasOnly(value, members);
}

function hasOnly(
  value: Readonly<Record<string, unknown>>,
  members: Readonly<Record<string, Check>>,
): boolean {
  return Object.entries(value).every(
    ([name, member]) => Object.hasOwn(members, name) && members[name]?.(member) === true,
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function toId(value: unknown): MessageId | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" && Number.isSafeInteger(value) ? value : undefined;
}
