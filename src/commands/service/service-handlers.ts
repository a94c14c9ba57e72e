/** What the listener of a service calls: the control API, the gateway, metrics and MCP. */

import type { ServerResponse } from "node:http";
import type { Clock } from "../../common/clock.ts";
import { sendJson } from "../../common/http.ts";
import type { Logger } from "../../common/log.ts";
import { createRateLimit } from "../../control/access.ts";
import { createControl, type ControlOptions } from "../../control/handler.ts";
import { createServiceMetrics, type ServiceMetricsOptions } from "../../control/service-metrics.ts";
import { createGateway, type GatewayOptions } from "../../gateway/handler.ts";
import type { Handlers } from "../../listener/listener.ts";
import type { McpHttp } from "../../mcp/http/http.ts";
import type { KeyCheck } from "../../sandboxes/keys.ts";
import { DEFAULT_TEAM } from "../../store/store.ts";
import { retryHeaders } from "../../wire/retry.ts";

/** What a service consists of once it is started, on one machine or as a front of a cluster. */
export interface ServiceParts {
  readonly sandboxes: ControlOptions["sandboxes"] &
    GatewayOptions["sandboxes"] &
    ServiceMetricsOptions["sandboxes"];
  readonly keys: KeyCheck;
  readonly mcp: McpHttp | undefined;
  /** What clients put below the name of a sandbox; null without an address that others reach. */
  readonly domain: string | null;
  /** Whether clients reach the hosts of sandboxes through a proxy that speaks TLS. */
  readonly hasTlsProxy: boolean;
  readonly maxSandboxes: number;
  /** Whether `GET /metrics` tells metrics of the service. */
  readonly hasMetrics: boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

function toHandlers(parts: ServiceParts): LateHandlers {
  const { sandboxes, keys, domain, maxSandboxes, hasTlsProxy, clock, log } = parts;
  const metered = { keys, team: DEFAULT_TEAM, sandboxes, maxSandboxes };
  const metrics = parts.hasMetrics ? createServiceMetrics(metered) : undefined;
  const known = { isKey: (text: string) => keys.teamOf(text) !== undefined, given: keys.given };
  const { isShared } = keys;
  const gateway = createGateway({ sandboxes, keys: known, isShared, hasTlsProxy, clock, log });
  const rateLimit = createRateLimit(clock);
  return {
    control: createControl({ sandboxes, keys, domain, rateLimit, metrics, log }),
    metrics: metrics && ((request, response) => metrics.handle(request, response)),
    gateway: (request, response, target) => gateway.handle(request, response, target),
    upgrade: (request, connection, target) => gateway.upgrade(request, connection, target),
    mcp: toMcpHandler(parts.mcp),
  };
}

type LateHandlers = Omit<Handlers, "isReady">;

/** Handlers that answer 503 until they are given the real ones. */
export function createDeferredHandlers(): {
  readonly handlers: Handlers;
  open(parts: ServiceParts): void;
} {
  let open: LateHandlers | undefined;
  const handlers: Handlers = {
    isReady: () => open !== undefined,
    control: async (request, response) =>
      open === undefined ? sendStarting(response) : open.control(request, response),
    gateway: async (request, response, target) =>
      open === undefined ? sendStarting(response) : open.gateway(request, response, target),
    async upgrade(request, connection, target) {
      if (open === undefined) connection.socket.destroy();
      else await open.upgrade(request, connection, target);
    },
    mcp: async (request, response) =>
      open === undefined ? sendStarting(response) : open.mcp(request, response),
    metrics: async (request, response) =>
      open === undefined
        ? sendStarting(response)
        : (open.metrics ?? open.control)(request, response),
  };
  return {
    handlers,
    open(parts) {
      open = toHandlers(parts);
    },
  };
}

function sendStarting(response: ServerResponse): void {
  const body = { code: 503, message: "service is starting" };
  sendJson(response, 503, { body, headers: retryHeaders(503) });
}

function toMcpHandler(mcp: McpHttp | undefined): Handlers["mcp"] {
  if (mcp !== undefined) return (request, response) => mcp.handle(request, response);
  const body = { code: 404, message: "MCP is not offered here" };
  return async (_request, response) =>
    sendJson(response, 404, { body, headers: retryHeaders(404) });
}
