/** How many files this process and those that it starts may have open. */

import { readFileSync } from "node:fs";

/** With fewer, connections are lost without a word. */
export const MIN_OPEN_FILES = 256;

/** At most, as `/proc/self/limits` tells: a number, or a word where there is no limit. */
export function readOpenFiles(limits = readFileSync("/proc/self/limits", "utf8")): string {
  return /^Max open files\s+\S+\s+(\S+)/m.exec(limits)?.[1] ?? "unknown";
}

/** Whether so many are enough. */
export function hasOpenFiles(most = readOpenFiles()): boolean {
  return Number.isNaN(Number(most)) || Number(most) >= MIN_OPEN_FILES;
}
