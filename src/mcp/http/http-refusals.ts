/** What the `/mcp` endpoint answers to requests that it does not serve. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { hasErrorCode } from "../../common/errors.ts";
import { sendJson } from "../../common/http.ts";
import { idOf } from "../messages/message-id.ts";
import { Refusal } from "../messages/message.ts";
import type { McpState } from "../state.ts";

export const RETRY_AFTER_S = 30;

/** GET and DELETE are of sessions, which hosts of the newer era do not have. */
const METHODS: ReadonlySet<string | undefined> = new Set(["GET", "POST", "DELETE"]);

/** Refuses a method that the endpoint does not have. Returns whether it did. */
export function refusesMethod({ method }: IncomingMessage, response: ServerResponse): boolean {
  if (METHODS.has(method)) return false;
  response.setHeader("allow", [...METHODS].join(", "));
  sendRpcError(response, 405, { code: -32_000, text: "Method not allowed" });
  return true;
}

/** A refusal in the form of JSON-RPC, with the id of the message where it has one. */
export function sendRpcError(
  response: ServerResponse,
  status: number,
  fault: { readonly code: number; readonly text: string; readonly body?: unknown },
): void {
  const { reply } = new Refusal(fault.code, fault.text, idOf(fault.body));
  sendJson(response, status, { body: reply });
}

/** Answers for what was thrown; only a fault of the server is logged. */
export function answerFailure(error: unknown, response: ServerResponse, state: McpState): void {
  // The host left before its body was there.
  if (hasErrorCode(error, "canceled")) return;
  if (hasErrorCode(error, "resource_exhausted")) {
    return sendRpcError(response, 413, { code: -32_600, text: "Request too large" });
  }
  if (hasErrorCode(error, "invalid_argument")) {
    return sendRpcError(response, 400, { code: -32_600, text: error.message });
  }
  if (hasErrorCode(error, "unavailable")) {
    if (!response.headersSent) response.setHeader("retry-after", String(RETRY_AFTER_S));
    return sendRpcError(response, 503, { code: -32_000, text: error.message });
  }
  state.log.error({ op: "mcp.http", err: error }, "request failed");
  sendRpcError(response, 500, { code: -32_603, text: "Internal error" });
}
