/** The gateway: address, permission, connection, and then bytes both ways. */

import { ServerResponse, type IncomingMessage } from "node:http";
import { Socket } from "node:net";
import type { Clock } from "../common/clock.ts";
import { endConnection } from "../common/end-connection.ts";
import type { Logger } from "../common/log.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import type { SandboxAddress } from "../wire/address.ts";
import { MESSAGES } from "../wire/messages.ts";
import { authorize, type Admission, type SandboxLookup } from "./authorize.ts";
import { dialPort, openTls } from "./dial.ts";
import { isSecretInTarget } from "./headers.ts";
import { proxy, refuseUnlessBegun, type Exchange } from "./proxy.ts";
import { crowded, secretInTarget, sendRefusal, type Refusal } from "./refusal.ts";
import type { PlatformKeys } from "./secret-finder.ts";
import { createSignatureAttempts } from "./signed-file-url.ts";
import { createSpareConnections } from "./spare-connections.ts";
import { proxyUpgrade, type Connection } from "./upgrade.ts";

/** More than the pools of one client; beyond it one sandbox would starve the others of files. */
const MAX_CONNECTIONS_PER_SANDBOX = 512;

export interface GatewayOptions {
  readonly sandboxes: SandboxLookup;
  /** They never enter a sandbox. */
  readonly keys: PlatformKeys;
  /** Whether several teams have keys. */
  readonly isShared: () => boolean;
  /** Whether clients reach the hosts of sandboxes through a proxy that speaks TLS. */
  readonly hasTlsProxy?: boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Where a request goes; without an address it is found by its signature. */
export interface Target {
  readonly address: SandboxAddress | undefined;
  /** Whether the host itself names the sandbox. */
  readonly hasOwnHost: boolean;
}

export interface Gateway {
  handle(request: IncomingMessage, response: ServerResponse, target: Target): Promise<void>;
  upgrade(request: IncomingMessage, connection: Connection, target: Target): Promise<void>;
}

export function createGateway(options: GatewayOptions): Gateway {
  const connections = new WeakMap<Endpoint, number>();
  const attempts = createSignatureAttempts(options.clock);
  const spares = createSpareConnections();

  /** Counts the exchange while it lasts. */
  async function counted(endpoint: Endpoint, work: () => Promise<void>): Promise<void> {
    connections.set(endpoint, (connections.get(endpoint) ?? 0) + 1);
    try {
      await work();
    } finally {
      connections.set(endpoint, (connections.get(endpoint) ?? 0) - 1);
    }
  }

  async function enter(request: IncomingMessage, target: Target): Promise<Admission | Refusal> {
    const admission = await authorize(request, target.address, { ...options, attempts });
    if ("status" in admission) return admission;
    const passage = { ...admission, keys: options.keys };
    return isSecretInTarget(request, passage) ? secretInTarget() : admission;
  }

  function toExchange(arrival: Arrival, { endpoint, port }: Admission): Exchange {
    const { request, response, target } = arrival;
    // Only connections with TLS have the property.
    const isOwnTls = "encrypted" in request.socket;
    const isTls = isOwnTls || (options.hasTlsProxy === true && target.hasOwnHost);
    return {
      request,
      response,
      passage: { endpoint, port, keys: options.keys, scheme: isTls ? "https" : "http" },
      log: options.log,
      rules: { host: request.headers.host ?? "", keepsCors: target.hasOwnHost },
    };
  }

  async function pass(
    arrival: Arrival,
    forward: (exchange: Exchange, socket: Socket) => Promise<void>,
  ): Promise<void> {
    const admission = await enter(arrival.request, arrival.target);
    if ("status" in admission) {
      sendRefusal(arrival.response, admission);
      return;
    }
    // A client that left while the sandbox was woken is told nothing, and takes no connection.
    if (arrival.response.destroyed) return;
    const { endpoint } = admission;
    // In one step with the count: all that waited for a wake-up come at once.
    if ((connections.get(endpoint) ?? 0) >= MAX_CONNECTIONS_PER_SANDBOX) {
      sendRefusal(arrival.response, crowded(endpoint.sandboxId, MAX_CONNECTIONS_PER_SANDBOX));
      return;
    }
    const exchange = toExchange(arrival, admission);
    await counted(endpoint, async () => {
      const spare = spares.take(endpoint, admission.port);
      const socket = spare ?? (await dial(exchange, admission));
      if (socket === undefined) return;
      await forward(exchange, socket);
      spares.prepare(endpoint, admission.port);
    });
  }

  return {
    handle: (request, response, target) => pass({ request, response, target }, proxy),
    upgrade(request, connection, target) {
      const response = respondOn(request, connection);
      return pass({ request, response, target }, (exchange, socket) =>
        proxyUpgrade(exchange, connection, socket),
      );
    },
  };
}

interface Arrival {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: Target;
}

/** A connection to the service, or undefined after the client was told that there is none. */
async function dial(
  exchange: Exchange,
  { endpoint, port }: Admission,
): Promise<Socket | undefined> {
  const gone = new AbortController();
  exchange.response.once("close", () => gone.abort());
  let message: string = MESSAGES.portClosed;
  try {
    let socket = await dialPort(endpoint, port, gone.signal);
    if (endpoint.httpsPorts.includes(port)) {
      message = MESSAGES.tlsMissing;
      const host = endpoint.maskedHost ?? exchange.rules.host;
      socket = await openTls(socket, host, gone.signal);
    }
    if (!exchange.response.destroyed) return socket;
    socket.destroy();
  } catch (error) {
    refuseUnlessBegun(exchange, error, message);
  }
  return undefined;
}

/** A response on the raw connection of an upgrade that does not come about. */
function respondOn(request: IncomingMessage, { socket }: Connection): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  // Connections of our own server are sockets.
  if (socket instanceof Socket) response.assignSocket(socket);
  response.once("finish", () => {
    // What the client has sent behind its request would hide that it leaves.
    socket.resume();
    endConnection(socket);
  });
  return response;
}
