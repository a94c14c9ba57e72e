/** Escaped bytes take more space than they had: a budget is for what a reader gets. */

import type { QuotedPart } from "./quote.ts";

/** A control character of one byte is shown as `\u0001`, and moves make as many spaces of a line. */
const MAX_GROWTH = 12;
/** Of a further attempt, because the growth is not the same everywhere. */
const MARGIN = 0.95;
/** Enough for any character, so that every page goes on. */
const MIN_BUDGET_BYTES = 4;

/**
 * The smaller budget of raw bytes for another attempt, when the text that was made of the last one
 * exceeds the limit; undefined when it is to be shown.
 */
export function smallerBudget(
  budgetBytes: number,
  shownBytes: number,
  maxBytes: number,
): number | undefined {
  if (shownBytes <= maxBytes) return undefined;
  const least = Math.max(MIN_BUDGET_BYTES, Math.floor(maxBytes / MAX_GROWTH));
  const next = Math.max(least, Math.floor((budgetBytes * maxBytes * MARGIN) / shownBytes));
  return next < budgetBytes ? next : undefined;
}

/** The size of a text without the notes of this server. */
export function textBytes(parts: readonly QuotedPart[]): number {
  return parts.reduce(
    (sum, part) => sum + (typeof part === "string" ? Buffer.byteLength(part, "utf8") : 0),
    0,
  );
}
