/**
 * Names of files that are not UTF-8. Inside the program each byte that belongs to no character is a
 * lone surrogate, U+DC80 to U+DCFF, so that paths stay strings. On the wire, whose strings must be
 * UTF-8, it is `\xNN`, and a backslash of such a name `\x5c`; other names are told as they are.
 */

import { isUtf8 } from "node:buffer";
import { lstat } from "node:fs/promises";
import { causeCode } from "./errors.ts";

const FIRST_ESCAPE = 0xdc00;
/** With `u` a surrogate that is half of a character does not match. */
const LONE_PATTERN = /[\uDC80-\uDCFF]/u;
const LONE_OR_BACKSLASH = /[\uDC80-\uDCFF\\]/gu;
const WIRE_PATTERN = /\\x(5c|[89a-f][0-9a-f])/g;
const WIRE_BYTE = /\\x[89a-f][0-9a-f]/;

/** A path as the system takes it. */
export function toSystemPath(path: string): string | Buffer {
  return LONE_PATTERN.test(path) ? toSystemBytes(path) : path;
}

export function toSystemBytes(path: string): Buffer {
  if (!LONE_PATTERN.test(path)) return Buffer.from(path);
  const parts = Array.from(path, (character) =>
    LONE_PATTERN.test(character)
      ? Buffer.of(character.charCodeAt(0) - FIRST_ESCAPE)
      : Buffer.from(character),
  );
  return Buffer.concat(parts);
}

/** A name or path that the system gave. */
export function fromSystemBytes(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString("utf8");
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const length = characterLength(bytes, at);
    text +=
      length === 0
        ? String.fromCharCode(FIRST_ESCAPE + (bytes[at] ?? 0))
        : bytes.toString("utf8", at, at + length);
    at += Math.max(1, length);
  }
  return text;
}

/** The length of the character at a place; 0 when there is none. */
function characterLength(bytes: Buffer, at: number): number {
  for (let length = 1; length <= 4 && at + length <= bytes.length; length += 1) {
    if (isUtf8(bytes.subarray(at, at + length))) return length;
  }
  return 0;
}

/** A path as the wire tells it. */
export function toWirePath(path: string): string {
  if (!LONE_PATTERN.test(path)) return path;
  const names = path
    .split("/")
    .map((name) =>
      LONE_PATTERN.test(name) ? name.replaceAll(LONE_OR_BACKSLASH, escapeCharacter) : name,
    );
  return names.join("/");
}

/** A message with paths in it, as the wire tells it. */
export function toWireText(text: string): string {
  return text.replaceAll(/[\uDC80-\uDCFF]/gu, escapeCharacter);
}

function escapeCharacter(character: string): string {
  return `\\x${(character.charCodeAt(0) & 0xff).toString(16).padStart(2, "0")}`;
}

/**
 * The path that a client means. A name of which an escape is a part stands for itself where there
 * is such a file, else for the bytes that it escapes, if those are there.
 */
export async function fromWirePath(path: string): Promise<string> {
  if (!WIRE_BYTE.test(path)) return path;
  let resolved = "";
  for (const [index, name] of path.split("/").entries()) {
    const prefix = index === 0 ? "" : `${resolved}/`;
    resolved = prefix + (await meantName(prefix, name));
  }
  return resolved;
}

/** As `fromWirePath`, of one name below a path that ends with a slash. */
export async function meantName(prefix: string, name: string): Promise<string> {
  if (!WIRE_BYTE.test(name) || (await isThere(prefix + name))) return name;
  const raw = name.replaceAll(WIRE_PATTERN, (_, hex: string) =>
    hex === "5c" ? "\\" : String.fromCharCode(FIRST_ESCAPE + Number.parseInt(hex, 16)),
  );
  return (await isThere(prefix + raw)) ? raw : name;
}

async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(toSystemPath(path));
    return true;
  } catch (error) {
    if (causeCode(error) === undefined) throw error;
    return false;
  }
}
