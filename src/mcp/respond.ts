/** The form of every reply: what is text, what is structured, how an error reads. */

import type { ErrorCode, SandboxError } from "../common/errors.ts";
import { escapeUnsafe, oneLine } from "./text.ts";

/** The outcome of a tool, before it has the protocol's form. */
export interface Reply<Fields = Record<string, unknown>> {
  readonly text: string;
  readonly fields?: Fields;
  readonly image?: { readonly base64: string; readonly mimeType: string };
  /** The operation failed after all; the text is what came of it until then. */
  readonly error?: SandboxError;
}

/** A part of a reply that quotes a sandbox. */
export interface Section {
  readonly name: string;
  readonly text: string;
}

/** What the protocol carries. */
export interface CallReply {
  readonly content: (
    | { readonly type: "text"; readonly text: string }
    | { readonly type: "image"; readonly data: string; readonly mimeType: string }
  )[];
  readonly structuredContent?: Record<string, unknown>;
  readonly isError?: true;
  readonly [key: string]: unknown;
}

/** Errors are read by a model that pays for each character. */
const MAX_ERROR_CHARACTERS = 2_000;

/** A reply of bytes, log or text: facts in one line, then what the sandbox said, between marks. */
export function textReply(
  facts: readonly (string | undefined)[],
  sections: readonly Section[] = [],
): Reply<never> {
  const header = oneLine(facts.filter((fact) => fact !== undefined && fact !== "").join(" | "));
  if (sections.length === 0) return { text: header };
  const quoted = sections.map(({ name, text }) => `--- ${name}\n${withNewline(text)}`).join("");
  return { text: `${header}\n${quoted}--- end` };
}

function withNewline(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

/** A reply that is a small record; its text states the same facts. */
export function recordReply<Fields extends Readonly<Record<string, unknown>>>(
  fields: Fields,
): Reply<Fields> {
  const lines = Object.entries(fields)
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
  image: { readonly base64: string; readonly mimeType: string },
): Reply<never> {
  return { ...textReply(facts), image };
}

/** A reply in the protocol's form; structured only for tools that promise it. */
export function toCallReply(reply: Reply, isRecord: boolean): CallReply {
  const text = { type: "text", text: reply.text } as const;
  const { image } = reply;
  const content =
    image === undefined
      ? [text]
      : [text, { type: "image", data: image.base64, mimeType: image.mimeType } as const];
  return { content, ...(isRecord && { structuredContent: { ...reply.fields } }) };
}

/** Whether an error's own words may be shown; of our own faults only the log has the details. */
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

const DEFAULT_HINTS: Partial<Record<ErrorCode, string>> = {
  unauthenticated:
    "The sandbox service refused the configured key. No tool call repairs this; tell the user.",
  permission_denied: "No tool call repairs this; tell the user.",
  deadline_exceeded: "The work may go on: look before you repeat a call that changes something.",
  unimplemented: "The sandbox service does not offer this operation.",
  internal: "The operation failed inside the service; its log has the details. Tell the user.",
};

/** A failure as text for a model: the code, what is wrong, what to do next, what came of it. */
export function errorReply(error: SandboxError, partial?: string): CallReply {
  const hint = error.hint ?? DEFAULT_HINTS[error.code];
  const message = IS_TOLD[error.code] ? `: ${escapeUnsafe(error.message)}` : "";
  const sentence = `${error.code}${message}${hint === undefined || hint === "" ? "" : `. ${hint}`}`;
  const cut = sentence.slice(0, MAX_ERROR_CHARACTERS);
  const text = partial === undefined ? cut : `${cut}\n${partial}`;
  return { content: [{ type: "text", text }], isError: true };
}
