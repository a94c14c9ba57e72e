/**
 * Hostnames and patterns of them, in the only spelling that is compared: the check of a name and
 * the question for its address use it.
 */

import { domainToASCII } from "node:url";

const MAX_NAME_LENGTH = 253;
const LABEL_PATTERN = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** What some programs read as an address in decimal, octal or hexadecimal numbers. */
const NUMBER_PATTERN = /^(?:[0-9]+|0x[0-9a-f]*)$/;
// eslint-disable-next-line no-control-regex -- the range is the definition of ASCII
const ASCII_PATTERN = /^[\x00-\x7F]*$/;

/** `Example.COM.` as `example.com`; undefined for what is no plain name of a host. */
export function toHostName(text: string): string | undefined {
  const name = (text.endsWith(".") ? text.slice(0, -1) : text).toLowerCase();
  // Lower case can turn other letters into ASCII ones, so the text itself is looked at.
  if (!ASCII_PATTERN.test(text) || name.length > MAX_NAME_LENGTH) return undefined;
  const labels = name.split(".");
  const isName = labels.every((label) => LABEL_PATTERN.test(label));
  return isName && !NUMBER_PATTERN.test(labels.at(-1) ?? "") ? name : undefined;
}

/** `*`, `*.example.com` or a name, international ones in their ASCII form; undefined for no pattern. */
export function toNamePattern(text: string): string | undefined {
  if (text === "*") return "*";
  const rest = text.startsWith("*.") ? text.slice(2) : text;
  const name = toHostName(ASCII_PATTERN.test(rest) ? rest : domainToASCII(rest));
  if (name === undefined) return undefined;
  return rest === text ? name : `*.${name}`;
}

/** Whether a name of {@link toHostName} is meant by one of the patterns; `*.x` does not mean `x`. */
export function isNamed(name: string, patterns: readonly string[]): boolean {
  return patterns.some(
    (pattern) =>
      pattern === "*" ||
      pattern === name ||
      (pattern.startsWith("*.") && name.endsWith(pattern.slice(1))),
  );
}
