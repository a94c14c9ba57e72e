/** Variables in the values of ENV steps. Nothing else of a shell is known: no command ever runs. */

import { SandboxError } from "../../common/errors.ts";

/** As large as the environment of a sandbox may be; a value can name another one many times. */
const MAX_VALUE_CHARACTERS = 98_304;

const NAME = "[A-Za-z_][A-Za-z0-9_]*";
/** Of a variable with a word the beginning alone: the word may have variables, too. */
const PIECE = new RegExp(
  String.raw`\\\$|\$(?<plain>${NAME})|\$\{(?<braced>${NAME})(?:\}|:(?<operator>[-+]))|\}|[^\\$}]+|.`,
  "gs",
);

/** What is read so far of the text, or of the word of a variable that has not ended. */
interface OpenText {
  /** As it stands in the text; empty for the text itself. */
  readonly head: string;
  readonly name: string;
  readonly operator: string;
  value: string;
}

/**
 * The value with `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` replaced, also in the words;
 * `\$` is a dollar sign, and an unknown name is empty.
 * @throws SandboxError invalid_argument for a value that becomes too long.
 */
export function expandVariables(
  text: string,
  environment: Readonly<Record<string, string>>,
): string {
  const whole: OpenText = { head: "", name: "", operator: "", value: "" };
  const words: OpenText[] = [];
  const valueOf = (name: string) =>
    Object.hasOwn(environment, name) ? (environment[name] ?? "") : "";
  const take = (piece: string) => {
    const target = words.at(-1) ?? whole;
    target.value += piece;
    if (target.value.length > MAX_VALUE_CHARACTERS) refuseLength();
  };
  for (const { 0: piece, groups = {} } of text.matchAll(PIECE)) {
    const { plain, braced, operator } = groups;
    const name = plain ?? braced;
    if (name !== undefined && operator !== undefined) {
      words.push({ head: piece, name, operator, value: "" });
    } else if (piece === "}" && words.length > 0) {
      const word = words.pop();
      if (word !== undefined) take(choose(valueOf(word.name), word));
    } else if (name !== undefined) take(valueOf(name));
    else take(piece === String.raw`\$` ? "$" : piece);
  }
  // A variable that does not end is a text.
  for (let word = words.pop(); word !== undefined; word = words.pop()) take(word.head + word.value);
  return whole.value;
}

function choose(value: string, word: Pick<OpenText, "operator" | "value">): string {
  if (word.operator === "-") return value === "" ? word.value : value;
  return value === "" ? "" : word.value;
}

function refuseLength(): never {
  throw new SandboxError(
    "invalid_argument",
    `a value has at most ${MAX_VALUE_CHARACTERS} characters`,
  );
}
