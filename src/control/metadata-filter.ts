/** The metadata filter of lists, which clients encode three times. */

import { SandboxError } from "../common/errors.ts";
import { MAX_FILTER_PAIRS } from "../wire/bounds.ts";

/**
 * The pairs of a filter whose query encoding was already removed. Plain `a=b&c=d` works too.
 * @throws SandboxError invalid_argument when it does not decode or has too many pairs.
 */
export function parseMetadataFilter(filter: string | undefined): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>();
  if (filter === undefined || filter === "") return pairs;
  try {
    for (const pair of decode(filter).split("&")) {
      const mark = pair.indexOf("=");
      const key = mark === -1 ? pair : pair.slice(0, mark);
      const value = mark === -1 ? "" : pair.slice(mark + 1);
      pairs.set(decode(key), decode(value));
    }
  } catch (error) {
    throw new SandboxError("invalid_argument", "Error parsing metadata: not decodable", {
      cause: error,
    });
  }
  if (pairs.size > MAX_FILTER_PAIRS) {
    throw new SandboxError(
      "invalid_argument",
      `Error parsing metadata: at most ${MAX_FILTER_PAIRS} pairs are allowed, not ${pairs.size}`,
    );
  }
  return pairs;
}

/** Form decoding: a plus is a space. */
function decode(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}
