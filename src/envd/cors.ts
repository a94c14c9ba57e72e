/** Cross-origin rules: pages of every origin may call, none with credentials. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { sendStatus } from "./exchange.ts";

const METHODS = "HEAD, GET, POST, PUT, PATCH, DELETE";
const EXPOSED =
  "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Location, Cache-Control, X-Content-Type-Options";
const MAX_AGE_S = "7200";

/** Adds the cross-origin headers; true when the request was a preflight and is answered. */
export function handleCors(request: IncomingMessage, response: ServerResponse): boolean {
  if (request.headers.origin === undefined) return false;
  response.setHeader("vary", "Origin");
  response.setHeader("access-control-allow-origin", "*");
  const asked = request.headers["access-control-request-method"];
  if (request.method !== "OPTIONS" || asked === undefined) {
    response.setHeader("access-control-expose-headers", EXPOSED);
    return false;
  }
  const headers = request.headers["access-control-request-headers"];
  sendStatus(response, 204, {
    "access-control-allow-methods": METHODS,
    "access-control-max-age": MAX_AGE_S,
    ...(headers !== undefined && { "access-control-allow-headers": headers }),
  });
  return true;
}
