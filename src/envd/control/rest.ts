/** POST /rest on the host's side: the daemon will not be asked for anything for a while. */

import { errorText } from "../../common/errors.ts";
import { sendStatus } from "../exchange.ts";
import type { ControlExchange } from "./exchange.ts";

export async function rest({ daemon, response }: ControlExchange): Promise<void> {
  await daemon.pipes.prepare().catch((error: unknown) => {
    // The first process tries again, and its caller is told why.
    daemon.log.write("warn", "no pipes made", { logger: "envd", error: errorText(error) });
  });
  daemon.rest.now();
  sendStatus(response, 204, { "cache-control": "no-store" });
}
