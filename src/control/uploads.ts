/** Addresses of uploads, and the one request that is served without a key: its token is the right. */

import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { discardRest } from "../common/http.ts";
import type { Uploads } from "../sandboxes/template-builds/uploads.ts";
import { readContent } from "./read-content.ts";
import { toFault } from "./reply.ts";

const PREFIX = "/uploads/";
/** How the log names it: the token is a secret. */
export const UPLOAD_PATH = "/uploads/{token}";

/** The origin is that by which the client has reached this service. */
export function uploadUrl(origin: string, token: string): string {
  return `${origin}${PREFIX}${token}`;
}

/** The token of an upload; undefined for any other request. */
export function uploadToken(method: string, path: string): string | undefined {
  return method === "PUT" && path.startsWith(PREFIX) ? path.slice(PREFIX.length) : undefined;
}

interface Upload {
  readonly request: IncomingMessage;
  /** Fires when the client is gone. */
  readonly signal: AbortSignal;
}

/** Takes the body. */
export async function takeUpload(
  uploads: Pick<Uploads, "receive">,
  { request, signal }: Upload,
  token: string,
) {
  try {
    const body = Readable.from(readContent(request), { objectMode: false });
    await uploads.receive(token, request.headers["content-length"], { body, signal });
    return { reply: { status: 201 } };
  } catch (error) {
    const { status, body } = toFault(error);
    discardRest(request);
    return { reply: { status, body }, error };
  }
}

/** Scheme and host of a request, which was checked before it came here. */
export function originOf(request: IncomingMessage): string {
  const isSecure = "encrypted" in request.socket && request.socket.encrypted === true;
  return `${isSecure ? "https" : "http"}://${request.headers.host ?? "localhost"}`;
}
