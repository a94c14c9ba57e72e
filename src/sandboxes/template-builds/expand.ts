/** Variables in the values of ENV steps. Nothing else of a shell is known: no command ever runs. */

import { SandboxError } from "../../common/errors.ts";

/** As large as the environment of a sandbox may be; a value can name another one many times. */
const MAX_VALUE_CHARACTERS = 98_304;

const VARIABLE =
  /\\\$|\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::([-+])([^{}]*))?\})/g;

/**
 * The value with `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` replaced; `\$` is a dollar
 * sign, and an unknown name is empty.
 * @throws SandboxError invalid_argument for a value that becomes too long.
 */
export function expandVariables(
  text: string,
  environment: Readonly<Record<string, string>>,
): string {
  let length = text.length;
  return text.replaceAll(VARIABLE, (match, ...groups: (string | undefined)[]) => {
    const [plain, braced, operator, word = ""] = groups;
    const name = plain ?? braced;
    if (name === undefined) return "$";
    const value = Object.hasOwn(environment, name) ? (environment[name] ?? "") : "";
    const used = operator === undefined ? value : choose(value, operator, word);
    length += used.length - match.length;
    if (length <= MAX_VALUE_CHARACTERS) return used;
    throw new SandboxError(
      "invalid_argument",
      `a value has at most ${MAX_VALUE_CHARACTERS} characters`,
    );
  });
}

function choose(value: string, operator: string, word: string): string {
  if (operator === "-") return value === "" ? word : value;
  return value === "" ? "" : word;
}
