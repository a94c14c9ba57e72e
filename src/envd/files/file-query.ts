/** The part that download and upload have in common: the query, and the right to use it. */

import { requireUtf8 } from "../../common/query.ts";
import { parseExpiration } from "../../wire/signature.ts";
import { authorizeFile } from "../auth.ts";
import { queryValue, type Exchange } from "../exchange.ts";

export interface FileQuery {
  /** As given; undefined when absent. */
  readonly path: string | undefined;
  readonly username: string | undefined;
}

/**
 * The query of an authorized request; undefined when the request is answered already.
 * @throws SandboxError unauthenticated, invalid_argument
 */
export function readFileQuery(
  exchange: Exchange,
  operation: "read" | "write",
): FileQuery | undefined {
  const { query, request, response } = exchange;
  requireUtf8(request.url ?? "");
  const path = queryValue(query, "path");
  const username = queryValue(query, "username");
  const signature = queryValue(query, "signature");
  const expirationText = queryValue(query, "signature_expiration");
  const expiration = parseExpiration(expirationText ?? null);
  if (expiration === "invalid") {
    response.writeHead(400, { "content-type": "text/plain; charset=utf-8" });
    response.end("Invalid format for parameter signature_expiration: not a whole number\n");
    return undefined;
  }
  authorizeFile(exchange, {
    path: path ?? "",
    operation,
    username: username ?? "",
    signature,
    expiration,
  });
  return { path, username };
}
