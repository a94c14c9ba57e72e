/** GET /health on the host's side: the daemon runs, whether or not it was told anything yet. */

import { sendStatus } from "../exchange.ts";
import type { ControlExchange } from "./exchange.ts";

export async function health({ response }: ControlExchange): Promise<void> {
  sendStatus(response, 204, { "cache-control": "no-store" });
}
