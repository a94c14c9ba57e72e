/**
 * Finds what opens the platform in a text on its way into a sandbox, in any spelling that HTTP
 * knows: as it is, in other letters' case, escaped, percent-encoded, in base64 at any place of a
 * longer text, and each of these within another. The work is linear in the text.
 */

/** A secret is found under so many spellings one within the other. */
const MAX_DEPTH = 3;
/** With a short secret nearly every text may hold one, and is decoded: the bound is lower. */
const MAX_SHORT_DEPTH = 2;
/** Keys asked for in the store while one request is looked at; beyond it everything counts as one. */
const MAX_LOOKUPS = 64;
/** A shorter secret is part of ordinary words: it is found only where it is a word of its own. */
export const MIN_SEARCHED_CHARACTERS = 8;

/** What `key create` makes, and how long it is. */
const KEY_PATTERN = /e2b_[0-9a-f]{40}/g;
const KEY_CHARACTERS = 44;

const SEPARATORS_PATTERN = /[\s,;:="'&?()<>[\]{}|\\/\0]+/;
const ESCAPE_PATTERN = /(?:%|\\u00|\\x)([0-9a-f]{2})|\\(.)/gi;
const ALIGNMENTS = [0, 1, 2, 3] as const;

export interface PlatformKeys {
  /** Whether a text is a key of this service. */
  readonly isKey: (text: string) => boolean;
  /** Keys whose shape is not known, as they are. */
  readonly given: readonly string[];
}

export interface SecretFinder {
  holdsSecret(text: string): boolean;
}

/** Finds the keys of the service, and the tokens besides. */
export function createSecretFinder(
  { isKey, given }: PlatformKeys,
  tokens: readonly (string | undefined)[],
): SecretFinder {
  const secrets = [...given, ...tokens].flatMap((text) => toSecrets(text ?? ""));
  const shortest = Math.min(KEY_CHARACTERS, ...secrets.map(({ text }) => text.length));
  const minRun = Math.ceil((shortest * 4) / 3);
  const runPattern = new RegExp(`[A-Za-z0-9+/_-]{${minRun},}`, "g");
  // What base64 of pictures and digests stands for is mostly none, and not looked at any further.
  const isPlain = secrets.every(({ text }) => /^[\x20-\x7e]+$/.test(text));
  const textPattern = isPlain ? new RegExp(`[\\t\\n\\r\\x20-\\x7e]{${shortest},}`) : /^/;
  const asked = new Map<string, boolean>();

  function isKnown(candidate: string): boolean {
    const known = asked.get(candidate);
    if (known !== undefined) return known;
    if (asked.size >= MAX_LOOKUPS) return true;
    const answer = isKey(candidate);
    asked.set(candidate, answer);
    return answer;
  }

  function isShown(text: string): boolean {
    const lower = text.toLowerCase();
    if (secrets.some((secret) => secret.isIn(lower))) return true;
    return (lower.match(KEY_PATTERN) ?? []).some((candidate) => isKnown(candidate));
  }

  function search(text: string, depth: number): boolean {
    if (text.length < shortest) return false;
    if (isShown(text)) return true;
    return depth > 0 && decodings(text).some((decoded) => search(decoded, depth - 1));
  }

  function decodings(text: string): string[] {
    // In one piece for the parts of an encoded text, and as it is for short words in base64.
    const forms = new Set([text, text.replaceAll(/\s+/g, "")]);
    const runs = new Set([...forms].flatMap((form) => form.match(runPattern) ?? []));
    const decoded = [...runs].flatMap((run) => ALIGNMENTS.map((at) => fromBase64(run.slice(at))));
    return [...unescape(text), ...decoded.filter((form) => textPattern.test(form))];
  }

  const depth = shortest < MIN_SEARCHED_CHARACTERS ? MAX_SHORT_DEPTH : MAX_DEPTH;
  return { holdsSecret: (text) => search(text, depth) };
}

interface Secret {
  readonly text: string;
  readonly isIn: (lower: string) => boolean;
}

/** As bytes of a header are read, which may be those of UTF-8. */
function toSecrets(given: string): Secret[] {
  const bytes = Buffer.from(given, "utf8").toString("latin1");
  const texts = new Set([given.toLowerCase(), bytes.toLowerCase()].filter((text) => text !== ""));
  return [...texts].map((text) => {
    const isWord = text.length < MIN_SEARCHED_CHARACTERS && !SEPARATORS_PATTERN.test(text);
    return {
      text,
      isIn: isWord
        ? (lower: string) => lower.split(SEPARATORS_PATTERN).includes(text)
        : (lower: string) => lower.includes(text),
    };
  });
}

/** Percent signs and backslashes taken for what they stand for, and the plus of forms as well. */
function unescape(text: string): string[] {
  const forms = text.includes("+") ? [text, text.replaceAll("+", " ")] : [text];
  const plain = forms.map((form) => form.replaceAll(ESCAPE_PATTERN, toSign));
  return plain.filter((form) => form !== text);
}

function toSign(_escape: string, digits: string | undefined, sign: string | undefined): string {
  return digits === undefined ? (sign ?? "") : String.fromCharCode(Number.parseInt(digits, 16));
}

/** Either alphabet, with or without padding. */
function fromBase64(text: string): string {
  return Buffer.from(text, "base64").toString("latin1");
}
