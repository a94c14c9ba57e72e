/** Removes keys from the text of a service: errors that quote a request are shown and logged. */

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
