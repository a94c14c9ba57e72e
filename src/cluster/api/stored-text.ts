/** The text of a record in an object of the cluster: JSON that this version, or another one, wrote. */

import { parseJson } from "../../common/json.ts";
import type { z } from "../../common/schema.ts";

/**
 * Undefined where it is none of ours. Fields that the schema does not know, at whatever depth, are kept:
 * a newer version wrote them, and a change by this one writes them again.
 */
export function parseStored<T>(text: string | undefined, schema: z.ZodType<T>): T | undefined {
  if (text === undefined) return undefined;
  try {
    const written = parseJson(Buffer.from(text, "utf8"));
    const { data } = schema.safeParse(written);
    addUnknown(data, written);
    return data;
  } catch {
    return undefined;
  }
}

function addUnknown(parsed: unknown, written: unknown): void {
  if (Array.isArray(parsed) && Array.isArray(written)) {
    for (const [index, item] of parsed.entries()) addUnknown(item, written[index]);
  }
  if (!isObject(parsed) || !isObject(written)) return;
  for (const [key, value] of Object.entries(written)) {
    if (Object.hasOwn(parsed, key)) addUnknown(parsed[key], value);
    else Object.defineProperty(parsed, key, { value, enumerable: true, writable: true });
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
