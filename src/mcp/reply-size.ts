/** How much of a list a reply holds: a sandbox chooses how long its names are. */

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

/** How much of each line is shown where so many must fit into a reply. */
export function squeezedShare(count: number): number {
  return Math.floor(MAX_LIST_CHARACTERS / Math.max(1, count)) - 1;
}
