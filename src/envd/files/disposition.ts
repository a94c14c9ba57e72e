/** Header values with parameters: writing a file's name, reading those of a form part. */

const TOKEN_PATTERN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const PRINTABLE_PATTERN = /^[\x20-\x7e\t]*$/;
/** Bytes that stand for themselves in the encoded form. */
const PLAIN_BYTE_PATTERN = /[!#$&+\-.^_`|~0-9A-Za-z]/;

/** `inline` with the name of the file, in the simplest form that can carry it. */
export function inlineDisposition(name: string): string {
  if (TOKEN_PATTERN.test(name)) return `inline; filename=${name}`;
  if (PRINTABLE_PATTERN.test(name)) {
    return `inline; filename="${name.replaceAll(/["\\]/g, (character) => `\\${character}`)}"`;
  }
  return `inline; filename*=utf-8''${percentEncode(name)}`;
}

function percentEncode(text: string): string {
  let encoded = "";
  for (const byte of Buffer.from(text)) {
    const character = String.fromCharCode(byte);
    const hex = byte.toString(16).toUpperCase().padStart(2, "0");
    encoded += PLAIN_BYTE_PATTERN.test(character) ? character : `%${hex}`;
  }
  return encoded;
}

export interface Parameterized {
  /** In lower case. */
  readonly value: string;
  /** Names in lower case; the first of two equal ones counts. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** A token, or a quoted string in which a backslash quotes; anything else ends the reading. */
const PARAMETER_PATTERN =
  /\s*;\s*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\[^])*)"|([^\s;"]+))/y;
/** Before any other character a backslash is part of the name, as old browsers send it. */
const ESCAPE_PATTERN = /\\([()<>@,;:\\"/[\]?=])/g;
const EXTENDED_PATTERN = /^utf-8'[^']*'(.*)$/i;

/** Takes a header such as `form-data; name="file"` apart. */
export function parseParameterized(header: string): Parameterized {
  const end = header.indexOf(";");
  const value = (end === -1 ? header : header.slice(0, end)).trim().toLowerCase();
  const parameters = new Map<string, string>();
  const pattern = new RegExp(PARAMETER_PATTERN);
  pattern.lastIndex = end === -1 ? header.length : end;
  for (let match = pattern.exec(header); match !== null; match = pattern.exec(header)) {
    const [, name = "", quoted, token = ""] = match;
    const key = name.toLowerCase();
    const text = quoted === undefined ? token : quoted.replaceAll(ESCAPE_PATTERN, "$1");
    if (!parameters.has(key)) parameters.set(key, text);
  }
  for (const [key, text] of parameters) {
    const extended = key.endsWith("*") ? decodeExtended(text) : undefined;
    if (extended !== undefined) parameters.set(key.slice(0, -1), extended);
  }
  return { value, parameters };
}

function decodeExtended(text: string): string | undefined {
  const encoded = EXTENDED_PATTERN.exec(text)?.[1];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch (error) {
    // Not UTF-8 after all: the plain parameter, if there is one, stays in force.
    if (error instanceof URIError) return undefined;
    throw error;
  }
}
