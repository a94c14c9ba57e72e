/** Text of others in a line of ours. */

const MAX_LOGGED_CHARACTERS = 256;

/** Untrusted text made fit for a log line or a message: escaped and at most 256 characters. */
export function quoteUntrusted(text: string): string {
  const cut =
    text.length > MAX_LOGGED_CHARACTERS ? `${text.slice(0, MAX_LOGGED_CHARACTERS)}…` : text;
  // Control, bidi and separator characters could forge lines or reorder what a reader sees.
  return cut.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => {
    const hex = character.codePointAt(0)?.toString(16).padStart(4, "0");
    return `\\u${hex}`;
  });
}
