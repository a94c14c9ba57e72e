/** One log line per file request, and the reply when it fails. */

import { errorText } from "../../common/errors.ts";
import { sendFault, toFault, type Exchange, type Handler } from "../exchange.ts";

/** A handler whose failures become replies, and whose outcome is logged. */
export function logged(message: string, route: string, handler: Handler): Handler {
  return async (exchange) => {
    const { daemon, operationId } = exchange;
    const { log } = daemon;
    const base = { logger: "envd", method: route, operation_id: operationId };
    try {
      await handler(exchange);
      log.write("info", message, { ...base, ...namesOf(exchange) });
    } catch (error) {
      const fault = toFault(error);
      const details = { error: errorText(error), error_code: fault.status };
      log.write("error", message, { ...base, ...namesOf(exchange), ...details });
      // A reply that has begun can only be broken off.
      if (exchange.response.headersSent) exchange.response.destroy();
      else sendFault(exchange.response, fault.status, fault.message);
    }
  };
}

function namesOf({ query }: Exchange): Readonly<Record<string, string>> {
  const path = query.get("path");
  const username = query.get("username");
  return { ...(path !== null && { path }), ...(username !== null && { username }) };
}
