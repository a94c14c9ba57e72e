/** What a handler of the host's side gets. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Daemon } from "../daemon.ts";

export interface ControlExchange {
  readonly daemon: Daemon;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Lets the public side listen; does nothing when it listens already. */
  readonly open: () => Promise<void>;
}

export type ControlHandler = (exchange: ControlExchange) => Promise<void>;
