/** POST /reach on the host's side: whether the sandbox can open a connection to an address of its host. */

import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { SandboxError } from "../../common/errors.ts";
import { readBody, sendJson } from "../../common/http.ts";
import { parseJson } from "../../common/json.ts";
import { reachRequestSchema, type ReachRequest } from "../../wire/files.ts";
import type { ControlExchange, ControlHandler } from "./exchange.ts";

const MAX_BODY_BYTES = 1_024;
/** A network that drops packets never answers. */
const CONNECT_MS = 1_000;

export type Reach = (target: ReachRequest) => Promise<boolean>;

export function createReachHandler(reach: Reach = canConnect): ControlHandler {
  return async ({ request, response }: ControlExchange) => {
    const isReached = await reach(await readTarget(request));
    sendJson(response, 200, { body: { isReached } });
  };
}

async function readTarget(request: IncomingMessage): Promise<ReachRequest> {
  const parsed = reachRequestSchema.safeParse(parseJson(await readBody(request, MAX_BODY_BYTES)));
  if (parsed.success) return parsed.data;
  throw new SandboxError("invalid_argument", "expected host and port");
}

async function canConnect({ host, port }: ReachRequest): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host, port, timeout: CONNECT_MS });
  socket.once("connect", () => resolve(true));
  socket.once("timeout", () => resolve(false));
  socket.once("error", () => resolve(false));
  try {
    return await promise;
  } finally {
    socket.on("error", () => undefined);
    socket.destroy();
  }
}
