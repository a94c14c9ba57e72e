/** The form of replies: text, structured content and errors. */

import { isCode, type ErrorCode, type SandboxError } from "../../common/errors.ts";
import { cutText, escapeUnsafe, oneLine } from "../../common/untrusted-text.ts";
import { quoteSections, type Section } from "../../output/quote.ts";
import { fitRecord } from "./reply-size.ts";

/** Of an address that a stdio server opened. */
export const OF_SESSION = "It works on this machine only, until this session ends.";

/** A picture that a host shows. */
export interface ReplyImage {
  readonly base64: string;
  readonly mimeType: string;
}

/** The outcome of a tool, before it has the protocol's form. */
export interface Reply<Fields = Record<string, unknown>> {
  readonly text: string;
  readonly fields?: Fields;
  readonly images?: readonly ReplyImage[];
  /** The operation failed; the text is its partial result. */
  readonly error?: SandboxError;
}

/**
 * What the protocol carries. No `resource_link` blocks: adapters of several model providers refuse
 * a result that has one, so a resource is named by its URI in the text.
 */
export interface CallReply {
  readonly content: (
    | { readonly type: "text"; readonly text: string }
    | { readonly type: "image"; readonly data: string; readonly mimeType: string }
  )[];
  readonly structuredContent?: Record<string, unknown>;
  readonly isError?: true;
  readonly [key: string]: unknown;
}

/** A model pays for each character of an error. */
const MAX_ERROR_CHARACTERS = 2_000;

/** Several paths fit into it; what a service calls something may be longer. */
const MAX_HEADER_CHARACTERS = 32_768;

/** A reply of bytes, log or text: facts in one line, then quoted text of the sandbox. */
export function textReply(
  facts: readonly (string | undefined)[],
  sections: readonly Section[] = [],
): Reply<never> {
  const told = facts.filter((fact) => fact !== undefined && fact !== "").join(" | ");
  const header = oneLine(cutText(told, MAX_HEADER_CHARACTERS));
  if (sections.length === 0) return { text: header };
  return { text: `${header}\n${quoteSections(sections)}` };
}

/** A reply that is a small record; its text states the same facts. */
export function recordReply<Fields extends Readonly<Record<string, unknown>>>(
  fields: Fields,
): Reply<Fields> {
  const lines = Object.entries(fitRecord(fields))
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${formatField(value)}`);
  return { text: lines.join("\n"), fields };
}

function formatField(value: unknown): string {
  return oneLine(typeof value === "string" ? value : JSON.stringify(value));
}

/** An image, which a host shows as such, with its facts as text beside it. */
export function imageReply(
  facts: readonly (string | undefined)[],
  image: ReplyImage,
): Reply<never> {
  return { ...textReply(facts), images: [image] };
}

/** A reply in the protocol's form; structured only for tools that promise it. */
export function toCallReply(reply: Reply, isRecord: boolean): CallReply {
  const content: CallReply["content"] = [{ type: "text", text: reply.text }];
  for (const { base64, mimeType } of reply.images ?? []) {
    content.push({ type: "image", data: base64, mimeType });
  }
  return {
    content,
    ...(isRecord && { structuredContent: visibleFields(fitRecord(reply.fields ?? {})) }),
  };
}

/** The fields with their texts as the text form has them: a host may show a model either. */
function visibleFields(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, visible(value)]));
}

/** Lists of records are the deepest that a tool replies with. */
function visible(value: unknown): unknown {
  if (typeof value === "string") return escapeUnsafe(value);
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? value.map((each) => visible(each)) : visibleFields(value);
}

/** Whether the message of an error is shown; that of internal faults is only logged. */
const IS_TOLD = {
  invalid_argument: true,
  unauthenticated: true,
  permission_denied: true,
  not_found: true,
  already_exists: true,
  failed_precondition: true,
  resource_exhausted: true,
  deadline_exceeded: true,
  canceled: true,
  unavailable: true,
  unimplemented: false,
  internal: false,
} as const satisfies Record<ErrorCode, boolean>;

/** Hints for errors without one. They name no tool: it may not be enabled. */
const DEFAULT_HINTS = {
  invalid_argument: "Correct the arguments, then call again.",
  unauthenticated:
    "The sandbox service refused the key that E2B_API_KEY of the MCP server has. No tool call repairs this; tell the user.",
  permission_denied: "No tool call repairs this; tell the user.",
  not_found: "Look what there is before you call again.",
  already_exists: "Use what is there, or choose another name.",
  failed_precondition: "Look at the state of the sandbox before you call again.",
  resource_exhausted: "Free what is no longer needed, then call again.",
  deadline_exceeded: "The work may go on: look before you repeat a call that changes something.",
  canceled: "Call again if it is still wanted.",
  unavailable: "Repeat it in a few seconds; look first if the call changes something.",
  unimplemented: "The sandbox service does not offer this operation; do without it.",
  internal: "The operation failed inside the service; its log has the details. Tell the user.",
} as const satisfies Record<ErrorCode, string>;

export interface ErrorDetails {
  readonly partial?: string | undefined;
  /** Further facts, such as the time left. */
  readonly note?: string | undefined;
}

/** No service is at the address. */
const UNREACHED_CODES = ["ECONNREFUSED", "ENOTFOUND"] as const;
const UNREACHED_HINT =
  "Repeat it in a few seconds. If that does not help, no service is at the address of E2B_DOMAIN or " +
  "E2B_API_URL of the MCP server, or the service in it has ended: tell the user.";

function defaultHint(error: SandboxError): string {
  const isUnreached = error.code === "unavailable" && isCode(error, ...UNREACHED_CODES);
  return isUnreached ? UNREACHED_HINT : DEFAULT_HINTS[error.code];
}

/** A failure as text for a model: the code, what is wrong, what to do next, what came of it. */
export function errorReply(error: SandboxError, details: ErrorDetails = {}): CallReply {
  const hint = cutText(oneLine(error.hint || defaultHint(error)), MAX_ERROR_CHARACTERS / 2);
  const leftCharacters = MAX_ERROR_CHARACTERS - error.code.length - hint.length - ": . ".length;
  // A long message is cut so that the hint fits.
  const message = IS_TOLD[error.code] ? `: ${cutText(oneLine(error.message), leftCharacters)}` : "";
  const sentence = `${error.code}${message}. ${hint}`;
  const lines = [sentence, details.partial, noteLine(details.note)];
  const text = lines.filter((line) => line !== undefined).join("\n");
  return { content: [{ type: "text", text }], isError: true };
}

/** The same reply with the time left, in its text and its record. */
export function withTimeLeft(reply: Reply, note: string | undefined): Reply {
  if (note === undefined) return reply;
  const text = `${reply.text}\n${noteLine(note)}`;
  return { ...reply, text, ...(reply.fields && { fields: { ...reply.fields, time_left: note } }) };
}

function noteLine(note: string | undefined): string | undefined {
  return note === undefined ? undefined : `time_left: ${note}`;
}
