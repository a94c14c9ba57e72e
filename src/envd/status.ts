/** The plain routes that tell about the daemon itself: GET /health and GET /envs. */

import { sendJson } from "../common/http.ts";
import { sendStatus, type Exchange } from "./exchange.ts";

/** Alive: a client that gets an answer has it. */
export async function health({ response }: Exchange): Promise<void> {
  sendStatus(response, 204, { "cache-control": "no-store" });
}

/** The variables that every process gets. */
export async function envs({ daemon, response }: Exchange): Promise<void> {
  const body = Object.fromEntries(daemon.settings.current.envVars);
  sendJson(response, 200, { body });
}
