/** POST /stop and POST /continue on the host's side: for the time in which a Pod is being paused. */

import { sendStatus } from "../exchange.ts";
import type { Programs } from "../programs.ts";
import type { ControlHandler } from "./exchange.ts";

/** Undefined for a daemon that cannot stop them: it does not know the paths. */
export function programRoutes(
  programs: Programs | undefined,
): Readonly<Record<string, ControlHandler>> {
  if (programs === undefined) return {};
  return {
    "POST /stop": async ({ response }) => {
      await programs.stop();
      sendStatus(response, 204);
    },
    "POST /continue": async ({ response }) => {
      await programs.goOn();
      sendStatus(response, 204);
    },
  };
}
