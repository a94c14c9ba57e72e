/**
 * Patterns of paths as `docker build` reads them. A text is compared once, character by character,
 * with every place of the pattern that it can have come to: no pattern takes long.
 */

import { SandboxError } from "../../common/errors.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";

type Token =
  | { readonly kind: "one"; fits(character: string): boolean }
  /** `*`, within a part of the path. */
  | { readonly kind: "part" }
  /** `**` at the end, or before a plain end that can be that of a name. */
  | { readonly kind: "any" }
  /** Any other `**`, with a slash behind it: nothing, or anything up to a slash. `within` follows. */
  | { readonly kind: "parts" }
  | { readonly kind: "within" };

const PIECE =
  /\*\*\/|\*\*|\*|\?|\[(?<class>\^?(?:\\.|[^\]\\])+)\]|\\(?<escaped>.)|(?<plain>[^[\\])/suy;
const RANGE = /(?:\\(?<escaped>.)|(?<plain>.))(?:-(?:\\(?<escapedEnd>.)|(?<plainEnd>.)))?/gsu;

/** Whether a part of a pattern means more than itself. */
export function isPattern(part: string): boolean {
  return /[*?[\\]/.test(part);
}

/** @throws SandboxError invalid_argument for a class that does not end, or a range that is none. */
export function toMatcher(pattern: string): (text: string) => boolean {
  const tokens = readTokens(pattern);
  return (text) => {
    let places = new Set<number>();
    enter(tokens, places, 0);
    for (const character of text) {
      if (places.size === 0) return false;
      const next = new Set<number>();
      for (const place of places) advance(tokens, { place, character, next });
      places = next;
    }
    return places.has(tokens.length);
  };
}

/** A place, and those that no character leads to. */
function enter(tokens: readonly Token[], places: Set<number>, place: number): void {
  let current = place;
  for (;;) {
    places.add(current);
    const kind = tokens[current]?.kind;
    if (kind === "parts") current += 2;
    else if (kind === "part" || kind === "any") current += 1;
    else return;
  }
}

function advance(
  tokens: readonly Token[],
  step: { readonly place: number; readonly character: string; readonly next: Set<number> },
): void {
  const { place, character, next } = step;
  const token = tokens[place];
  const isSlash = character === "/";
  switch (token?.kind) {
    case "one":
      if (token.fits(character)) enter(tokens, next, place + 1);
      return;
    case "part":
      if (!isSlash) enter(tokens, next, place);
      return;
    case "any":
      enter(tokens, next, place);
      return;
    case "parts":
      if (isSlash) enter(tokens, next, place);
      else next.add(place + 1);
      return;
    case "within":
      if (isSlash) enter(tokens, next, place - 1);
      else next.add(place);
      return;
    case undefined:
  }
}

function readTokens(pattern: string): Token[] {
  const tokens: Token[] = [];
  PIECE.lastIndex = 0;
  while (PIECE.lastIndex < pattern.length) {
    const piece = PIECE.exec(pattern);
    if (piece === null) return refuse(pattern);
    const { class: members, escaped, plain } = piece.groups ?? {};
    const literal = escaped ?? plain;
    if (members !== undefined) tokens.push(toClass(members, pattern));
    else if (piece[0].startsWith("**")) tokens.push(...toAny(pattern, piece));
    else if (piece[0] === "*") tokens.push({ kind: "part" });
    else if (piece[0] === "?") tokens.push({ kind: "one", fits: (one) => one !== "/" });
    else tokens.push({ kind: "one", fits: (one) => one === literal });
  }
  return tokens;
}

function toAny(pattern: string, { 0: text, index }: RegExpExecArray): Token[] {
  const rest = pattern.slice(index + text.length);
  const isEnd = rest === "" || (index === 0 && text === "**" && !/[*?[\]\\]/.test(rest));
  return isEnd ? [{ kind: "any" }] : [{ kind: "parts" }, { kind: "within" }];
}

function toClass(members: string, pattern: string): Token {
  const isNegated = members.startsWith("^");
  const ranges = [...members.slice(isNegated ? 1 : 0).matchAll(RANGE)].map(({ groups = {} }) => {
    const first = groups["escaped"] ?? groups["plain"] ?? "";
    const last = groups["escapedEnd"] ?? groups["plainEnd"] ?? first;
    return [first.codePointAt(0) ?? 0, last.codePointAt(0) ?? 0] as const;
  });
  if (ranges.length === 0 || ranges.some(([first, last]) => first > last)) return refuse(pattern);
  return {
    kind: "one",
    fits(character) {
      const code = character.codePointAt(0) ?? 0;
      return ranges.some(([first, last]) => first <= code && code <= last) !== isNegated;
    },
  };
}

function refuse(pattern: string): never {
  throw new SandboxError("invalid_argument", `not a pattern of paths: ${quoteUntrusted(pattern)}`);
}
