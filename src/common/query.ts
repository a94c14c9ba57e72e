/** Queries of requests, which the platform decodes without a word about bytes that are no text. */

import { isUtf8 } from "node:buffer";
import { SandboxError } from "./errors.ts";

/**
 * Refuses a query in another encoding: each of its bytes would become the same character, and two
 * names one.
 * @throws SandboxError invalid_argument
 */
export function requireUtf8(query: string): void {
  for (const [escapes] of query.matchAll(/(?:%[0-9a-f]{2})+/gi)) {
    if (isUtf8(Buffer.from(escapes.replaceAll("%", ""), "hex"))) continue;
    throw new SandboxError("invalid_argument", "query is not in UTF-8");
  }
}
