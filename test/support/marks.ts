/** The random word of a reply's lines around what it quotes. */

/** Nothing of a sandbox comes before it. */
const FIRST_LINE = /^--- .* ([a-z2-7]{8})$/m;

/** The word of a reply that quotes a sandbox; undefined for any other reply. */
export function markOf(text: string): string | undefined {
  return FIRST_LINE.exec(text)?.[1];
}

/** The reply as it reads without its random word. */
export function withoutMark(text: string): string {
  const mark = markOf(text);
  if (mark === undefined) return text;
  return text.replaceAll(new RegExp(`^(--- .*) ${mark}$`, "gm"), "$1");
}
