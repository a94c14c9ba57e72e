/** Untrusted text made visible: what a reader cannot see, or what forges a line, is escaped. */

/**
 * Controls besides line feed and tab, everything that Unicode shows as nothing (zero-width
 * characters, soft hyphens, variation selectors, tags, byte order marks), marks that turn the
 * reading direction, separators of lines, and halves of surrogate pairs.
 */
const UNSAFE_PATTERN =
  /(?![\n\t])[\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\u2028\u2029\uFFF9-\uFFFB]/gu;
/** The same character in a row, so often that its number is shorter than the escapes. */
const UNSAFE_RUN = new RegExp(`(${UNSAFE_PATTERN.source})\\1{3,}`, "gu");

/** The text with every unsafe character written as `\uXXXX` or `\u{XXXXX}`. */
export function escapeUnsafe(text: string): string {
  return text.replaceAll(UNSAFE_PATTERN, (character) => {
    const hex = (character.codePointAt(0) ?? 0).toString(16);
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
  });
}

/** As `escapeUnsafe`; of a character that is repeated the number is told: `[512 × \u0000]`. */
export function escapeRuns(text: string): string {
  const short = text.replaceAll(
    UNSAFE_RUN,
    (run, character: string) => `[${run.length / character.length} × ${character}]`,
  );
  return escapeUnsafe(short);
}

/** How many characters `escapeUnsafe` would change. */
export function countUnsafe(text: string): number {
  return text.match(UNSAFE_PATTERN)?.length ?? 0;
}

/** As `escapeUnsafe`, on one line: for names and facts, which must not forge a line of their own. */
export function oneLine(text: string): string {
  return escapeUnsafe(text).replaceAll("\n", String.raw`\n`);
}

/** A name that cannot be taken for anything but a name. */
const PLAIN_NAME = /^[\p{L}\p{N}\p{M}_./@:+,=~%#*{}^!?&$-]+$/u;

/**
 * A name or path inside a sentence of ours: as it is when it is plain, else as a JSON string. The
 * string has unsafe characters escaped as JSON does, so that a parser gets the name back.
 */
export function quoteName(name: string): string {
  if (PLAIN_NAME.test(name) && countUnsafe(name) === 0) return name;
  return JSON.stringify(name).replaceAll(UNSAFE_PATTERN, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

const MAX_FOREIGN_CHARACTERS = 256;

/** How many of them are kept from the end, where an error names its cause behind a long path. */
const FOREIGN_END_CHARACTERS = 64;

/** Foreign words inside a message of ours: cut, and unable to end the quotation by themselves. */
export function quoteWords(words: string): string {
  const cut = cutMiddle(words, MAX_FOREIGN_CHARACTERS + 1, FOREIGN_END_CHARACTERS);
  return `"${oneLine(cut.replaceAll(/["\\]/g, String.raw`\$&`))}"`;
}

/** The beginning of a text, with a sign where it was cut; no character is cut in two. */
export function cutText(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  // A slice would hold the whole text for as long as it is kept itself.
  const bytes = Buffer.from(`${sliceText(text, maxCharacters - 1)}…`, "utf16le");
  return bytes.toString("utf16le");
}

/** The beginning and the end of a text, with a sign where it was cut. */
function cutMiddle(text: string, maxCharacters: number, endCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const end = text.slice(-endCharacters).replace(/^[\uDC00-\uDFFF]/, "");
  return `${sliceText(text, maxCharacters - 1 - endCharacters)}…${end}`;
}

/** At most so many UTF-16 units from the beginning; no character is cut in two. */
export function sliceText(text: string, maxCharacters: number): string {
  const cut = text.slice(0, maxCharacters);
  return /[\uD800-\uDBFF]$/.test(cut) && cut.length < text.length ? cut.slice(0, -1) : cut;
}

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
