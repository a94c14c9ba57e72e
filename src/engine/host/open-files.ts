/** How many files this process, and what it starts, may have open, and how many processes its user. */

import { readFileSync } from "node:fs";

/**
 * Programs that are given fewer lose connections without a word. A kernel of its own has up to two for
 * each file of all its programs and some thousand of its cache, and once it had none left it takes no
 * connection of the service any more, for good.
 */
export const MIN_OPEN_FILES = { shared: 256, own: 4_096 } as const;

/** The hard limit, which may be a word, as `/proc/self/limits` tells. */
export function readOpenFiles(limits = readFileSync("/proc/self/limits", "utf8")): string {
  return /^Max open files\s+\S+\s+(\S+)/m.exec(limits)?.[1] ?? "unknown";
}

/** How many processes this user may have, by the hard limit; undefined without one. */
export function readMaxProcesses(
  limits = readFileSync("/proc/self/limits", "utf8"),
): number | undefined {
  const hard = /^Max processes\s+\S+\s+(\d+)/m.exec(limits)?.[1];
  return hard === undefined ? undefined : Number(hard);
}

/** Whether that is so many; a word is no limit. */
export function isEnough(hard: string, count: number): boolean {
  return Number.isNaN(Number(hard)) || Number(hard) >= count;
}
