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

/** The values by name; several of one name are a list, which the schema of a single value refuses. */
export function readQuery(query: string): Record<string, string | readonly string[]> {
  const all = new URLSearchParams(query);
  const names = [...new Set(all.keys())];
  return Object.fromEntries(
    names.map((name) => {
      const [first = "", ...more] = all.getAll(name);
      return [name, more.length === 0 ? first : [first, ...more]];
    }),
  );
}
