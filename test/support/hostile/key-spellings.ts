/** The ways in which a client may write a key into a header, each as text of one line. */

import type { Random } from "../random.ts";

export interface Spelling {
  /** The value of the header. */
  readonly value: string;
  /** The part of it that must not arrive. */
  readonly core: string;
}

type Spell = (key: string, random: Random) => Spelling;

const whole = (value: string): Spelling => ({ value, core: value });
const within = (core: string, wrap: (core: string) => string): Spelling => ({
  value: wrap(core),
  core,
});

/** Text of a header has the bytes of UTF-8. */
export function toHeaderText(key: string): string {
  return Buffer.from(key, "utf8").toString("latin1");
}

function base64(text: string): string {
  return Buffer.from(text, "latin1").toString("base64");
}

function base64url(text: string): string {
  return Buffer.from(text, "latin1").toString("base64url");
}

function percent(text: string): string {
  const digits = Buffer.from(text, "latin1").toString("hex");
  return digits.replaceAll(/../g, "%$&");
}

function letters(random: Random, most: number): string {
  return random.bytes(random.below(most + 1)).toString("hex");
}

/** Each keeps the key a word of its own, so that short ones are found too. */
export const SPELLINGS: Readonly<Record<string, Spell>> = {
  raw: (key) => whole(key),
  quoted: (key) => within(key, (core) => `"${core}"`),
  Bearer: (key) => within(key, (core) => `Bearer ${core}`),
  "other letters": (key) => whole(key.toUpperCase()),
  "Basic user": (key) => within(base64(`${key}:`), (core) => `Basic ${core}`),
  "Basic password": (key) => within(base64(`user:${key}`), (core) => `bAsIc  ${core}`),
  base64: (key) => whole(base64(key)),
  "base64url, not padded": (key) => whole(base64url(key)),
  "base64 in parts": (key) => whole(base64(key).replaceAll(/.{8}(?=.)/g, "$& ")),
  "base64 at any place": (key, random) =>
    whole(base64(`${letters(random, 5)} ${key} ${letters(random, 5)}`)),
  "base64 within base64 letters": (key, random) =>
    within(base64url(` ${key} `), (core) => `${letters(random, 4)}${core}${letters(random, 4)}`),
  query: (key, random) => within(key, (core) => `a=${letters(random, 4)}&key=${core}&b=`),
  percent: (key) => whole(percent(key)),
  "percent, in part": (key) => whole(`${percent(key.slice(0, 2))}${escape(key.slice(2))}`),
  backslashes: (key) => within(key.replaceAll(/[^0-9a-zA-Z]/g, "\\$&"), (core) => `"${core}"`),
  JSON: (key) => within(toJson(key), (core) => `{"token":${core}}`),
  "base64 of JSON": (key) =>
    within(base64url(`{"token":${toJson(key)}}`), (core) => `head.${core}.tail`),
  "base64 of base64": (key) => whole(base64(base64(key))),
  "percent of base64": (key) => whole(percent(base64(key))),
  "base64 of percent": (key) => whole(base64(percent(key))),
  "percent of percent": (key) => whole(percent(percent(key))),
  subprotocol: (key) =>
    within(base64url(key), (core) => `app, base64url.bearer.authorization.k8s.io.${core}`),
};

/** Percent signs of the key itself must not be read as escapes. */
function escape(text: string): string {
  return text.replaceAll(/[%\\+]/g, (sign) => percent(sign));
}

function toJson(key: string): string {
  const digits = Buffer.from(key, "latin1").toString("hex");
  return `"${digits.replaceAll(/../g, "\\u00$&")}"`;
}
