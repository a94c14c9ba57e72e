/** How much of a list a reply holds: a sandbox chooses how long its names are. */

import { cutText } from "../../common/untrusted-text.ts";

/** About what the largest plain list takes: a thousand entries of eighty characters. */
const MAX_LIST_CHARACTERS = 100_000;

/** How many lines from the first one on fit into a reply; one in any case. */
export function countFitting(lines: readonly string[]): number {
  let characters = 0;
  for (const [index, line] of lines.entries()) {
    characters += line.length + 1;
    if (index > 0 && characters > MAX_LIST_CHARACTERS) return index;
  }
  return lines.length;
}

/** The lines that fit into a reply, from the first one on, which is cut where it alone does not. */
export function fittingLines(lines: readonly string[]): string[] {
  return lines.slice(0, countFitting(lines)).map((line) => cutText(line, MAX_LIST_CHARACTERS));
}

/** How much of each line is shown where so many must fit into a reply. */
export function squeezedShare(count: number): number {
  return Math.floor(MAX_LIST_CHARACTERS / Math.max(1, count)) - 1;
}

const TEXT_CHARACTERS = { min: 64, max: 1_024 };
/** Of a list inside a record, as the names of a template are. */
const MAX_ITEMS = 1_000;

/**
 * A record as it is, or with its long texts and lists cut where it is too long for a reply: a remote
 * service chooses how long its names and labels are.
 */
export function fitRecord(fields: object): Record<string, unknown> {
  const whole: Record<string, unknown> = { ...fields };
  if (JSON.stringify(whole).length <= MAX_LIST_CHARACTERS) return whole;
  const share = Math.floor(MAX_LIST_CHARACTERS / countTexts(whole));
  const { min, max } = TEXT_CHARACTERS;
  return cutValues(whole, Math.min(max, Math.max(min, share)));
}

function countTexts(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  const values: unknown[] = Array.isArray(value) ? value.slice(0, MAX_ITEMS) : Object.values(value);
  return values.reduce<number>((sum, each) => sum + countTexts(each), 0);
}

function cutValues(fields: object, maxCharacters: number): Record<string, unknown> {
  const cut = Object.entries(fields).map(([name, value]) => [name, cutValue(value, maxCharacters)]);
  return Object.fromEntries(cut);
}

function cutValue(value: unknown, maxCharacters: number): unknown {
  if (typeof value === "string") return cutText(value, maxCharacters);
  if (typeof value !== "object" || value === null) return value;
  if (!Array.isArray(value)) return cutValues(value, maxCharacters);
  const shown = value.slice(0, MAX_ITEMS).map((each) => cutValue(each, maxCharacters));
  const omitted = value.length - shown.length;
  return omitted > 0 && typeof value[0] === "string" ? [...shown, `… ${omitted} more`] : shown;
}
