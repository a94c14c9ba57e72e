/** What a reply of `GET /files` has of the file, and which replies are none of a daemon. */

import { unexpectedReply } from "../common/unexpected-reply.ts";
import { claimedError, isPage, type HttpReply } from "./http.ts";

type Headers = HttpReply["headers"];

/** Daemons of every version send one of these with a file, also with an empty one. */
const SIGNS_OF_A_FILE = ["content-disposition", "last-modified", "accept-ranges"] as const;

interface Asked {
  readonly offset: number;
  /** The operation, as the beginning of an error message. */
  readonly subject: string;
}

/**
 * The head of a reply below 300 to a request for a part: the part itself, or the whole file.
 * @throws SandboxError internal for anything else, whose body would be taken for the file.
 */
export function requirePart({ status, headers }: Omit<HttpReply, "body">, asked: Asked): void {
  const { offset, subject } = asked;
  if (status === 200) return;
  if (status !== 206) throw unexpectedReply(`${status} is no status of a file`, { subject });
  const range = String(headers["content-range"]);
  if (range.startsWith(`bytes ${offset}-`)) return;
  throw unexpectedReply(`from byte ${offset} on was asked for, it has ${range}`, { subject });
}

/**
 * The bytes of a reply of 200. A proxy that answers in the place of a daemon sends nothing, a page
 * or an error, and none of the headers of a file.
 * @throws SandboxError internal then.
 */
export function requireContent({ headers, body }: HttpReply, subject: string): void {
  if (hasSign(headers)) return;
  const fault = faultOf(headers, body);
  if (fault === undefined) return;
  throw unexpectedReply(`200 with ${fault}, without the headers of a file`, { subject });
}

/** The size in a reply of 416. @throws SandboxError internal for a file that has the bytes, or is none. */
export function requireOutside(headers: Headers, { offset, subject }: Asked): number | undefined {
  const sizeBytes = totalOf(headers["content-range"]);
  const isOutside = sizeBytes === undefined ? hasSign(headers) : sizeBytes <= offset;
  if (isOutside) return sizeBytes;
  const range = String(headers["content-range"]);
  throw unexpectedReply(`416 for byte ${offset}, with the range ${range}`, { subject });
}

/** The size of the whole file; undefined when the reply does not say it. */
export function sizeOf({ status, headers }: Omit<HttpReply, "body">): number | undefined {
  return status === 206 ? totalOf(headers["content-range"]) : numberOf(headers["content-length"]);
}

function hasSign(headers: Headers): boolean {
  return SIGNS_OF_A_FILE.some((name) => headers[name] !== undefined);
}

function faultOf(headers: Headers, body: Buffer): string | undefined {
  if (body.length === 0) return "nothing";
  if (claimedError(body) !== undefined) return "an error";
  return isPage(headers, body) ? "a page of HTML" : undefined;
}

/** The size behind the slash of `bytes 0-9/182341` or of `bytes` with a star for the range. */
function totalOf(contentRange: string | string[] | undefined): number | undefined {
  if (typeof contentRange !== "string") return undefined;
  return numberOf(contentRange.split("/")[1]);
}

function numberOf(text: string | string[] | undefined): number | undefined {
  return typeof text === "string" && /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined;
}
