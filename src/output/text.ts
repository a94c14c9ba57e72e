/** Untrusted output as text: terminal codes removed, cut between lines or characters. */

import { characterCut, isContinuation } from "../common/characters.ts";
import { escapeRuns } from "../common/untrusted-text.ts";
import { ANSI_SOURCE, applyCursorMoves } from "./cursor-moves.ts";

const ANSI_PATTERN = new RegExp(ANSI_SOURCE, "g");

/** Output of a program as a screen shows it. */
export interface Cleaned {
  readonly text: string;
  /** Texts that a carriage return overwrote, as progress bars do, and their size. */
  readonly overwritten: { readonly count: number; readonly bytes: number };
}

/** Output as a screen shows it, with deceptive characters escaped. */
export function cleanTerminal(text: string): string {
  return cleanOutput(text).text;
}

/** The same, with what the screen no longer shows counted. */
export function cleanOutput(raw: string): Cleaned {
  const text = applyCursorMoves(raw).replaceAll(ANSI_PATTERN, "");
  if (!text.includes("\r")) return { text: escapeRuns(text), overwritten: NOTHING };
  const overwritten = { ...NOTHING };
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const shown = lines.map((line) => {
    if (!line.includes("\r")) return line;
    const texts = line.split("\r").filter((part) => part !== "");
    for (const part of texts.slice(0, -1)) {
      overwritten.count += 1;
      overwritten.bytes += Buffer.byteLength(part, "utf8");
    }
    return texts.at(-1) ?? "";
  });
  return { text: escapeRuns(shown.join("\n")), overwritten };
}

const NOTHING = { count: 0, bytes: 0 };

const NEWLINE = 0x0a;

/** A cut at or before `limit`: after a line where one ends in the second half, else a character. */
export function cutBefore(bytes: Buffer, limit: number): number {
  if (limit >= bytes.length) return bytes.length;
  if (limit <= 0) return 0;
  const newline = bytes.lastIndexOf(NEWLINE, limit - 1);
  return newline >= limit / 2 ? newline + 1 : characterCut(bytes, limit);
}

/** A cut at or after `start`, at the beginning of a line where one begins soon enough. */
export function cutAfter(bytes: Buffer, start: number): number {
  if (start <= 0) return 0;
  const newline = bytes.indexOf(NEWLINE, start - 1);
  const latest = start + (bytes.length - start) / 2;
  if (newline !== -1 && newline < latest) return newline + 1;
  let cut = start;
  const furthest = Math.min(bytes.length, start + 3);
  while (cut < furthest && isContinuation(bytes[cut])) cut += 1;
  return cut;
}

const KILO = 1_000;

/** A size for people: `512 B`, `182 KB`, `5.2 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes < KILO) return `${bytes} B`;
  if (bytes < KILO * KILO) return `${formatTenths(bytes / KILO)} KB`;
  return `${formatTenths(bytes / (KILO * KILO))} MB`;
}

function formatTenths(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Math.round(value * 10) / 10);
}

/** A duration for people: `40ms`, `2.4s`. */
export function formatDuration(ms: number): string {
  return ms < KILO ? `${Math.round(ms)}ms` : `${formatTenths(ms / KILO)}s`;
}
