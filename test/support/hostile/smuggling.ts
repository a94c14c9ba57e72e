/** Requests that two servers might frame in two ways: method, body, and what Connection names. */

import type { Random } from "../random.ts";
import { BODY_MARK, HAS_BODY } from "./strict-server.ts";

/** A body that is a whole request to whoever takes its bytes for the next one. */
export const SMUGGLED = `GET /smuggled HTTP/1.1\r\nhost: localhost\r\n${BODY_MARK}\r\n\r\n`;

export const METHODS = [
  "GET",
  "HEAD",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "POST",
  "PUT",
  "PATCH",
  "PROPFIND",
  "REPORT",
  "M-SEARCH",
  "PURGE",
  "LOCK",
  "QUERY",
] as const;

/** Pinned: what a Connection header may not name, each with a header of the request behind it. */
export const PROTECTED = [
  "content-length",
  "transfer-encoding",
  "trailer",
  "expect",
  "host",
  "content-type",
  "content-encoding",
  "content-range",
  "range",
  "origin",
  "authorization",
  "cookie",
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-proto",
  "x-real-ip",
  "x-api-key",
  "x-access-token",
  "e2b-sandbox-id",
  "e2b-sandbox-port",
  "e2b-traffic-access-token",
] as const;

/** The last of them mean something to this service alone; to other servers they may be named. */
export const OWN_HEADERS: readonly string[] = PROTECTED.slice(-5);

/** What it may: headers of the connection, and those that nobody here knows. */
const HARMLESS = ["keep-alive", "te", "x-own", "http2-settings", "proxy-connection", "x-none"];

interface BodyForm {
  readonly headers: readonly string[];
  readonly bytes: string;
  /** Whether the sender itself framed it in a way that no server may accept. */
  readonly isFaulty?: true;
}

const length = `content-length: ${SMUGGLED.length}`;
const chunked = "transfer-encoding: chunked";
const chunk = `${SMUGGLED.length.toString(16)};name=value\r\n${SMUGGLED}\r\n0\r\n`;

export const FORMS: Readonly<Record<string, BodyForm>> = {
  none: { headers: [], bytes: "" },
  "no bytes": { headers: ["content-length: 0"], bytes: "" },
  length: { headers: [length, HAS_BODY], bytes: SMUGGLED },
  chunked: { headers: [chunked, HAS_BODY], bytes: `${chunk}\r\n` },
  "chunked with trailers": {
    headers: [chunked, HAS_BODY, "trailer: x-own, x-api-key"],
    bytes: `${chunk}x-own: trailer\r\nx-api-key: trailer\r\n\r\n`,
  },
  "a length as a trailer": {
    headers: [chunked, HAS_BODY, "trailer: content-length"],
    bytes: `${chunk}content-length: 3\r\n\r\n`,
    isFaulty: true,
  },
  "length, expected": { headers: [length, HAS_BODY, "expect: 100-continue"], bytes: SMUGGLED },
  "chunked, expected": {
    headers: [chunked, HAS_BODY, "expect: 100-continue"],
    bytes: `${chunk}\r\n`,
  },
  both: { headers: [length, chunked, HAS_BODY], bytes: `${chunk}\r\n`, isFaulty: true },
  "two lengths": { headers: [length, "content-length: 3"], bytes: SMUGGLED, isFaulty: true },
};

/** How a sender may write options beside `close`; every reader finds the same names in them. */
const SPELLINGS: readonly ((name: string) => readonly string[])[] = [
  (name) => [`connection: close, ${name}`],
  (name) => [`Connection: ${name},close`],
  (name) => [`connection: close\t,\t ${name.toUpperCase()} `],
  (name) => ["connection: close", `CONNECTION: ${name}`],
  (name) => [`connection: ${capitalize(name)}`, "connection: close"],
  (name) => [`connection: close,,${name},`],
  (name) => [`connection: close, x-none, ${name}, x-none`],
  (name) => [`connection: close,\r\n ${name}`],
  (name) => [`connection: close, "${name}"`],
  (name) => ["connection: close", `connection: x-none; ${name}`],
];

function capitalize(name: string): string {
  return name.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase());
}

export interface SmuggleCase {
  readonly method: string;
  readonly form: string;
  readonly named: string;
  readonly connection: readonly string[];
  readonly isProtected: boolean;
  /** Whether the bytes are none that a strict reader takes. */
  readonly isFaulty: boolean;
}

/** Half of them name a protected header, a third of those one that frames the body. */
export function smuggleCase(random: Random): SmuggleCase {
  const framing = PROTECTED.slice(0, 2);
  const names = random.once(2) ? HARMLESS : random.once(3) ? framing : PROTECTED;
  const named = random.pick(names);
  const [form, { isFaulty = false }] = random.pick(Object.entries(FORMS));
  const connection = random.pick(SPELLINGS)(named);
  return {
    method: random.pick(METHODS),
    form,
    named,
    connection,
    // A header over two lines is one thing to old readers and another to new ones.
    isFaulty: isFaulty || connection.some((line) => line.includes("\r\n")),
    isProtected: PROTECTED.some((name) => name === named),
  };
}

/** The bytes of a case, with the lines that say where it goes. */
export function toBytes(one: SmuggleCase, target: string, lines: readonly string[]): string {
  const { headers, bytes } = formOf(one);
  const present = [...lines, ...headers].map((line) => line.split(":", 1)[0]?.toLowerCase());
  // The header that is named is there: to leave it out is what the option asks for.
  const named = present.includes(one.named) || isOfBody(one.named) ? [] : [`${one.named}: 1`];
  const head = [`${one.method} ${target} HTTP/1.1`, ...lines, ...headers, ...named];
  return `${[...head, ...one.connection].join("\r\n")}\r\n\r\n${bytes}`;
}

export function formOf({ form }: SmuggleCase): BodyForm {
  const found = FORMS[form];
  if (found === undefined) throw new Error(`no form is called ${form}`);
  return found;
}

/** Present where the form has it; a second one would be another case. */
function isOfBody(name: string): boolean {
  return ["content-length", "transfer-encoding", "expect", "trailer"].includes(name);
}
