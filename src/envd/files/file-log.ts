/** One log line per file request, and the reply when it fails. */

import { errorText, hasErrorCode } from "../../common/errors.ts";
import { sendFault, toFault, type Exchange, type Handler } from "../exchange.ts";
import type { LogFields } from "../log.ts";

/** Of the only precondition of a file request: what the file must hold that an upload replaces. */
const CHANGED_STATUS = 412;

/** A handler whose failures become replies, and whose outcome is logged. */
export function logged(message: string, route: string, handler: Handler): Handler {
  return withReply(message, route, async (exchange) => {
    await handler(exchange);
    exchange.daemon.log.write("info", message, linesOf(exchange, route));
  });
}

/** A handler whose failures become replies and are logged; it logs its success itself. */
export function withReply(message: string, route: string, handler: Handler): Handler {
  return async (exchange) => {
    try {
      await handler(exchange);
    } catch (error) {
      const fault = toFileFault(error);
      const details = { error: errorText(error), error_code: fault.status };
      const fields = { ...linesOf(exchange, route), ...details };
      exchange.daemon.log.write("error", message, fields);
      // A reply that has begun can only be broken off.
      if (exchange.response.headersSent) exchange.response.destroy();
      else sendFault(exchange.response, fault.status, fault.message);
    }
  };
}

function toFileFault(error: unknown): ReturnType<typeof toFault> {
  const fault = toFault(error);
  return hasErrorCode(error, "failed_precondition") ? { ...fault, status: CHANGED_STATUS } : fault;
}

function linesOf(exchange: Exchange, route: string): LogFields {
  const base = { logger: "envd", method: route, operation_id: exchange.operationId };
  return { ...base, ...namesOf(exchange) };
}

function namesOf({ query }: Exchange): Readonly<Record<string, string>> {
  const path = query.get("path");
  const username = query.get("username");
  return { ...(path !== null && { path }), ...(username !== null && { username }) };
}
