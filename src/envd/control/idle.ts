/**
 * POST /rest on the host's side: the daemon will not be asked for anything for a while. Its body is
 * read as that of /init and forgotten: what runs for the first time then has run before.
 */

import { sendStatus } from "../exchange.ts";
import type { ControlExchange } from "./exchange.ts";
import { readInit } from "./init.ts";
import { preparePipes } from "./prepare-pipes.ts";

/** @throws SandboxError invalid_argument */
export async function idle({ daemon, request, response }: ControlExchange): Promise<void> {
  await readInit(request);
  await preparePipes(daemon);
  daemon.rest.now();
  sendStatus(response, 204, { "cache-control": "no-store" });
}
