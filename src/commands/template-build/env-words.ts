/**
 * The pairs of ENV and ARG as a Dockerfile writes them. Quotes are taken off here, because the value
 * of a step is not quoted: what is literal in it says so by `\$`, the rest is expanded by the service.
 */

import { VARIABLE_PATTERN } from "../../sandboxes/template-builds/step-patterns.ts";
import type { Refuse } from "./run-command.ts";

interface EnvReader {
  readonly refuse: Refuse;
}

/** The forms that the service expands. */
const BRACED = /\$\{[A-Za-z_][A-Za-z0-9_]*(?::[-+][^{}'"\\]*)?\}/y;
/** A quoted text, an escaped character, or any other one. */
const WORD_PIECE = /'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s]/suy;

/** Name and value by turns. An ARG without a value has an empty one. */
export function readEnvWords(keyword: "ENV" | "ARG", content: string, reader: EnvReader): string[] {
  const words = splitWords(content);
  const [first = ""] = words;
  if (first === "") reader.refuse("needs a name and a value");
  // The older form: one name, and the rest of the line.
  if (keyword === "ENV" && !first.includes("=")) {
    const [, name = "", rest = ""] = /^(\S+)\s*(.*)$/s.exec(content) ?? [];
    if (rest === "") reader.refuse("needs a name and a value");
    return [requireName(name, reader), toValue(rest, reader)];
  }
  return words.flatMap((word) => {
    const at = word.indexOf("=");
    if (at === -1 && keyword === "ENV") reader.refuse(`needs a value for ${JSON.stringify(word)}`);
    const [name, value] = at === -1 ? [word, ""] : [word.slice(0, at), word.slice(at + 1)];
    return [requireName(name, reader), toValue(value, reader)];
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

function toValue(raw: string, reader: EnvReader): string {
  let value = "";
  let quote = "";
  const take = (character: string) => {
    value += character === "$" ? String.raw`\$` : character;
  };
  for (let at = 0; at < raw.length; at += 1) {
    const character = raw.charAt(at);
    const following = raw.charAt(at + 1);
    if (quote === "'") {
      if (character === "'") quote = "";
      else take(character);
    } else if (character === '"' || (character === "'" && quote === "")) {
      quote = quote === "" ? character : "";
    } else if (character === "\\" && isEscaped(following, quote)) {
      take(following);
      at += 1;
    } else if (character === "$") {
      const variable = readVariable(raw, at, reader);
      if (value.endsWith("\\")) reader.refuse("has a backslash before a variable");
      value += variable;
      at += variable.length - 1;
    } else take(character);
  }
  if (quote !== "") reader.refuse(`has a ${quote} that does not end`);
  return value;
}

/** In double quotes a backslash stands for itself before most characters. */
function isEscaped(following: string, quote: string): boolean {
  return following !== "" && (quote === "" || ['"', "$", "\\"].includes(following));
}

/** The dollar sign, with the braces behind it. */
function readVariable(raw: string, at: number, { refuse }: EnvReader): string {
  if (raw.charAt(at + 1) !== "{") return "$";
  BRACED.lastIndex = at;
  const variable = BRACED.exec(raw)?.[0];
  return variable ?? refuse("has a variable in a form that is not supported");
}
