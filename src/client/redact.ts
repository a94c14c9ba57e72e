/** Removes keys from the text of a service: errors that quote a request are shown and logged. */

import { ConnectError } from "@connectrpc/connect";
import { parseJson } from "../common/json.ts";
import { ACCESS_TOKEN_HEADER, API_KEY_HEADER } from "../wire/headers.ts";

const SECRET_HEADERS = [API_KEY_HEADER, ACCESS_TOKEN_HEADER].map((name) => name.toLowerCase());
/** Shorter values are no keys, and could match ordinary words. */
const MIN_SECRET_CHARACTERS = 8;

/** The text without the keys that the headers of its request carried. */
export function redactKeys(text: string, headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .filter(([name]) => SECRET_HEADERS.includes(name.toLowerCase()))
    .map(([, value]) => value)
    .filter((value) => value.length >= MIN_SECRET_CHARACTERS)
    .reduce((cleaned, value) => cleaned.replaceAll(value, "[redacted]"), text);
}

/** The body of a refusal without them, whichever characters of its JSON are written as escapes. */
export function redactBody(body: Buffer, headers: Readonly<Record<string, string>>): Buffer {
  return Buffer.from(redactKeys(withoutEscapes(body), headers), "utf8");
}

function withoutEscapes(body: Buffer): string {
  try {
    return JSON.stringify(parseJson(body));
  } catch {
    // Quoted as the text that it is.
    return body.toString("utf8");
  }
}

/** The messages of an RPC; what it fails with has no keys. */
export async function* redactFailure<T>(
  messages: AsyncIterable<T>,
  headers: Readonly<Record<string, string>>,
): AsyncGenerator<T, void> {
  try {
    yield* messages;
  } catch (error) {
    throw redactError(error, headers);
  }
}

/** What a peer ended an RPC with, or the library quotes of a message that it could not read. */
export function redactError(error: unknown, headers: Readonly<Record<string, string>>): unknown {
  if (!(error instanceof ConnectError)) return error;
  const { rawMessage, code, cause } = error;
  const message = redactKeys(rawMessage, headers);
  if (message === rawMessage) return error;
  return new ConnectError(message, code, undefined, undefined, cause && new Error(message));
}
