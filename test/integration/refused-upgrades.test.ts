/** Upgrades that do not come about, and clients that sent more behind them. */

import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { SandboxError } from "../../src/common/errors.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { createGateway } from "../../src/gateway/handler.ts";
import { startListener } from "../../src/listener/listener.ts";
import { closedEndpoint } from "../support/control/endpoint.ts";
import { listenOnLoopback } from "../support/loopback.ts";

const DOMAIN = "sandbox.localhost";
const KNOWN = "i0123456789abcdefghij";
const PLAIN_PORT = 8_000;
const MORE = Buffer.alloc(100);

const unused = async () => undefined;

/** A gateway with one sandbox, in which a service answers every request without an upgrade. */
async function listen() {
  const service = createServer((_request, response) => response.writeHead(404).end("none"));
  const servicePort = await listenOnLoopback(service);
  const closed = closedEndpoint({ sandboxId: KNOWN });
  const endpoint = closedEndpoint({
    sandboxId: KNOWN,
    async dial(port, signal) {
      if (port !== PLAIN_PORT) return closed.dial(port, signal);
      const socket = connect(servicePort, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    },
  });
  const gateway = createGateway({
    sandboxes: {
      locate: (sandboxId) => (sandboxId === KNOWN ? endpoint : undefined),
      endpoints: () => [endpoint],
      stopped: () => [],
      wake: async () => {
        throw new SandboxError("not_found", "none");
      },
    },
    keys: { isKey: () => false, given: [] },
    isShared: () => true,
    clock: createSystemClock(),
    log: createSilentLog(),
  });
  const arrived: Duplex[] = [];
  const over: Promise<void>[] = [];
  const listener = await startListener({
    addresses: [{ kind: "tcp", host: "127.0.0.1", port: 0 }],
    domain: DOMAIN,
    handlers: {
      isReady: () => true,
      control: unused,
      mcp: unused,
      gateway: unused,
      async upgrade(request, connection, target) {
        arrived.push(connection.socket);
        const handling = gateway.upgrade(request, connection, target);
        over.push(handling);
        await handling;
      },
    },
    log: createSilentLog(),
    graceMs: 0,
  });
  const [port = 0] = listener.ports;
  return {
    port,
    arrived,
    over,
    async [Symbol.asyncDispose]() {
      await listener[Symbol.asyncDispose]();
      service.close();
      service.closeAllConnections();
    },
  };
}

test.for([
  ["of no sandbox", `80-i00000000000000000000.${DOMAIN}`, 502],
  ["of a port that is closed", `80-${KNOWN}.${DOMAIN}`, 502],
  ["that a service does not take", `${PLAIN_PORT}-${KNOWN}.${DOMAIN}`, 404],
] as const)("the connection of an upgrade %s ends, whatever follows", async ([, host, status]) => {
  await using listener = await listen();
  const client = connect(listener.port, "127.0.0.1");
  client.on("error", () => undefined);
  client.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n`);
  const [reply] = await once(client, "data");
  expect(String(reply)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  client.write(MORE);
  await nextTurn();
  client.end();
  await expect.poll(() => listener.arrived[0]?.destroyed).toBe(true);
  await Promise.all(listener.over);
});

test("so does that of a client which never ends its side", async () => {
  await using listener = await listen();
  const client = connect({ port: listener.port, host: "127.0.0.1", allowHalfOpen: true });
  const host = `80-i00000000000000000000.${DOMAIN}`;
  client.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n`);
  await once(client, "data");
  await expect.poll(() => listener.arrived[0]?.destroyed).toBe(true);
  client.destroy();
});
