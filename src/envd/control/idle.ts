/** POST /rest on the host's side: the daemon will not be asked for anything for a while. */

import { sendStatus } from "../exchange.ts";
import type { ControlExchange } from "./exchange.ts";
import { preparePipes } from "./prepare-pipes.ts";

export async function idle({ daemon, response }: ControlExchange): Promise<void> {
  await preparePipes(daemon);
  daemon.rest.now();
  sendStatus(response, 204, { "cache-control": "no-store" });
}
