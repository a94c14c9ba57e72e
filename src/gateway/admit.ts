/** Whether a request may enter a sandbox, and which one: the checks in the wire's order. */

import type { IncomingMessage } from "node:http";
import { SandboxError } from "../common/errors.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import type { SandboxAddress } from "../wire/address.ts";
import { ENVD_PORT, TRAFFIC_TOKEN_HEADER } from "../wire/headers.ts";
import { equalSecrets } from "../wire/signature.ts";
import { attribute } from "./attribute.ts";
import { notRunning, reserved, trafficToken, type Refusal } from "./refusal.ts";
import { findReservedPath } from "./reserved-path.ts";

/** Where a request goes. */
export interface Admission {
  readonly endpoint: Endpoint;
  readonly port: number;
}

/** Without an address the request is a file's, and its signature says whose. */
export function admit(
  request: IncomingMessage,
  address: SandboxAddress | undefined,
  sandboxes: Pick<Sandboxes, "locate" | "endpoints">,
): Admission | Refusal {
  if (address === undefined) {
    const endpoint = attribute(request, sandboxes.endpoints());
    return "status" in endpoint ? endpoint : { endpoint, port: ENVD_PORT };
  }
  const { sandboxId, port } = address;
  if (port === ENVD_PORT) {
    const path = findReservedPath(request.url ?? "/");
    if (path !== undefined) return reserved(path);
  }
  const endpoint = find(sandboxes, sandboxId);
  if (endpoint === undefined) return notRunning(sandboxId);
  const { trafficToken: expected } = endpoint;
  if (expected !== undefined && port !== ENVD_PORT) {
    const given = request.headersDistinct[TRAFFIC_TOKEN_HEADER]?.[0];
    if (given === undefined || !equalSecrets(given, expected))
      return trafficToken(sandboxId, given);
  }
  return { endpoint, port };
}

function find(sandboxes: Pick<Sandboxes, "locate">, sandboxId: string): Endpoint | undefined {
  try {
    return sandboxes.locate(sandboxId);
  } catch (error) {
    if (error instanceof SandboxError && error.code === "not_found") return undefined;
    throw error;
  }
}
