/** The content types of Connect: whether messages come in envelopes, and their codec. */

export interface ContentType {
  /** Whether the messages are in envelopes; else the body is one message. */
  readonly isStream: boolean;
  readonly isBinary: boolean;
}

const PATTERN = /^application\/(connect\+)?(json|proto)(?:; ?charset=utf-8)?$/i;

/** Undefined for any type that is not Connect's. */
export function parseContentType(text = ""): ContentType | undefined {
  const match = PATTERN.exec(text);
  if (match === null) return undefined;
  return { isStream: match[1] !== undefined, isBinary: match[2]?.toLowerCase() === "proto" };
}
