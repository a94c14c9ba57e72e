/** Words of commands that a message shows to be typed. */

/** A shell reads these as they are. */
const PLAIN_PATTERN = /^[\w@%+=:,./-]+$/;

/** The word as a shell reads it. */
export function quoteWord(word: string): string {
  return PLAIN_PATTERN.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
