/**
 * The pairs of ENV and ARG as a Dockerfile writes them. Quotes are taken off here, because the value
 * of a step is not quoted: what is literal in it says so by `\$`, the rest is expanded by the service.
 */

import { VARIABLE_PATTERN } from "../../sandboxes/template-builds/step-patterns.ts";
import type { Refuse } from "./run-command.ts";

interface EnvReader {
  readonly refuse: Refuse;
}

/** The forms that the service expands; of one with a word the beginning. */
const VARIABLE = /\$(?:(?<plain>[A-Za-z_]\w*)|\{[A-Za-z_]\w*(?:\}|(?<word>:[-+])))/y;
/** Parameters of a shell, which have no value in a Dockerfile. */
const PARAMETER = /\$(?:\d+|[@*#?$!-])/y;
/** A quoted text, an escaped character, or any other one. */
const WORD_PIECE = /'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s]/suy;

/** An ARG may have no value, which is another one than an empty one. */
export type EnvPair = readonly [name: string, value: string | undefined];

export function readEnvWords(
  keyword: "ENV" | "ARG",
  content: string,
  reader: EnvReader,
): EnvPair[] {
  const words = splitWords(content);
  const [first = ""] = words;
  if (first === "") reader.refuse("needs a name and a value");
  // The older form: one name, and the rest of the line.
  if (keyword === "ENV" && !first.includes("=")) {
    const [, name = "", rest = ""] = /^(\S+)\s*(.*)$/s.exec(content) ?? [];
    if (rest === "") reader.refuse("needs a name and a value");
    return [[requireName(name, reader), toValue(rest, reader)]];
  }
  return words.map((word) => {
    const at = word.indexOf("=");
    if (at === -1 && keyword === "ENV") reader.refuse(`needs a value for ${JSON.stringify(word)}`);
    if (at === -1) return [requireName(word, reader), undefined];
    return [requireName(word.slice(0, at), reader), toValue(word.slice(at + 1), reader)];
  });
}

/** At blanks that are neither quoted nor escaped. */
function splitWords(content: string): string[] {
  const words: string[] = [];
  let word = "";
  let at = 0;
  while (at < content.length) {
    WORD_PIECE.lastIndex = at;
    const piece = WORD_PIECE.exec(content)?.[0];
    if (piece === undefined) {
      if (word !== "") words.push(word);
      word = "";
      at += 1;
    } else {
      word += piece;
      at += piece.length;
    }
  }
  return word === "" ? words : [...words, word];
}

function requireName(given: string, { refuse }: EnvReader): string {
  const name = /^(["'])(.*)\1$/.exec(given)?.[2] ?? given;
  if (VARIABLE_PATTERN.test(name)) return name;
  return refuse(`has a name that no variable has: ${JSON.stringify(name.slice(0, 64))}`);
}

interface RawText {
  readonly raw: string;
  at: number;
}

/** The value of a step as the service expands it: quotes and escapes are taken off. */
export function toValue(raw: string, reader: EnvReader): string {
  return readText({ raw, at: 0 }, "", reader);
}

/** Up to the end, or with the brace that ends the word of a variable. */
function readText(text: RawText, end: "" | "}", reader: EnvReader): string {
  let value = "";
  let isQuoted = false;
  const take = (characters: string) => {
    // The service takes the first brace for the end of a word.
    if (end !== "" && characters.includes("}")) refuseForm(reader);
    value += characters.replaceAll("$", String.raw`\$`);
  };
  while (text.at < text.raw.length) {
    const character = text.raw.charAt(text.at);
    if (character === end && !isQuoted) {
      text.at += 1;
      return `${value}}`;
    }
    if (character === '"') isQuoted = !isQuoted;
    else if (character === "'" && !isQuoted) take(readLiteral(text, reader));
    else if (character === "\\") take(readEscaped(text, isQuoted));
    else if (character === "$") {
      const variable = readVariable(text, reader);
      if (/^\$./.test(variable) && value.endsWith("\\")) {
        reader.refuse("has a backslash before a variable");
      }
      value += variable;
    } else take(character);
    text.at += 1;
  }
  if (isQuoted) reader.refuse('has a " that does not end');
  return end === "" ? value : refuseForm(reader);
}

/** What stands in single quotes; the place is that of the last one. */
function readLiteral(text: RawText, { refuse }: EnvReader): string {
  const start = text.at + 1;
  const end = text.raw.indexOf("'", start);
  if (end === -1) refuse("has a ' that does not end");
  text.at = end;
  return text.raw.slice(start, end);
}

/** In double quotes a backslash stands for itself before most characters. */
function readEscaped(text: RawText, isQuoted: boolean): string {
  const following = text.raw.charAt(text.at + 1);
  if (isQuoted && !['"', "$", "\\"].includes(following)) return "\\";
  text.at += 1;
  return following;
}

/** As the service expands it; the place is that of its last character. */
function readVariable(text: RawText, reader: EnvReader): string {
  const { raw, at } = text;
  const found = matchAt(VARIABLE, text);
  const [piece] = found ?? matchAt(PARAMETER, text) ?? [""];
  if (piece !== "") text.at += piece.length - 1;
  const { plain, word } = found?.groups ?? {};
  if (word !== undefined) {
    text.at += 1;
    const variable = `${piece}${readText(text, "}", reader)}`;
    text.at -= 1;
    return variable;
  }
  if (plain !== undefined) {
    // What follows a quote, an escape or a parameter is no part of the name.
    return /^["'\\$].*\w/s.test(raw.slice(text.at + 1)) ? `\${${plain}}` : piece;
  }
  if (found !== null) return piece;
  if (raw.charAt(at + 1) === "{") refuseForm(reader);
  return piece === "" ? String.raw`\$` : "";
}

function matchAt(pattern: RegExp, { raw, at }: RawText): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(raw);
}

function refuseForm({ refuse }: EnvReader): never {
  return refuse("has a variable in a form that is not supported");
}
