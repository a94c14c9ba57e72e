/** Connections that are dialled ahead into a service: none is stale, shared, or made for other ports. */

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createSpareConnections } from "../../src/gateway/spare-connections.ts";
import type { Endpoint } from "../../src/sandboxes/run.ts";
import { closedEndpoint } from "../support/control/endpoint.ts";
import { listenOnLoopback } from "../support/loopback.ts";

const PORT = 49_999;

interface Service extends AsyncDisposable {
  /** What the service has accepted, and what was dialled. */
  readonly accepted: Socket[];
  readonly dialled: Socket[];
  endpoint(facts?: Partial<Endpoint>): Endpoint;
}

/** A service that answers each line by itself, and greets with `greeting`. */
async function startService(greeting = ""): Promise<Service> {
  const accepted: Socket[] = [];
  const dialled: Socket[] = [];
  const server = createServer((socket) => {
    accepted.push(socket);
    socket.on("error", () => undefined);
    socket.on("data", (data) => socket.write(data));
    if (greeting !== "") socket.write(greeting);
  });
  const port = await listenOnLoopback(server);
  return {
    accepted,
    dialled,
    endpoint: (facts = {}) =>
      closedEndpoint({
        servicePorts: [PORT],
        dial: async () => {
          const socket = connect(port, "127.0.0.1");
          dialled.push(socket);
          socket.on("error", () => undefined);
          await once(socket, "connect");
          return socket;
        },
        ...facts,
      }),
    async [Symbol.asyncDispose]() {
      for (const socket of [...accepted, ...dialled]) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

test("a prepared connection is given once, and carries bytes both ways", async () => {
  await using service = await startService();
  const spares = createSpareConnections();
  const endpoint = service.endpoint();
  expect(spares.take(endpoint, PORT)).toBeUndefined();
  spares.prepare(endpoint, PORT);
  spares.prepare(endpoint, PORT);
  let spare: Socket | undefined;
  await expect.poll(() => (spare = spares.take(endpoint, PORT))).toBeDefined();
  expect(spares.take(endpoint, PORT)).toBeUndefined();
  let text = "";
  spare?.on("data", (data) => {
    text += String(data);
  });
  spare?.write("hello");
  await expect.poll(() => text).toBe("hello");
  expect(service.dialled).toEqual([spare]);
});

test("a connection that the service has closed is not given", async () => {
  await using service = await startService();
  const spares = createSpareConnections();
  const endpoint = service.endpoint();
  spares.prepare(endpoint, PORT);
  await expect.poll(() => service.accepted.length).toBe(1);
  service.accepted[0]?.destroy();
  await expect.poll(() => service.dialled[0]?.destroyed).toBe(true);
  expect(spares.take(endpoint, PORT)).toBeUndefined();
  spares.prepare(endpoint, PORT);
  await expect.poll(() => spares.take(endpoint, PORT)).toBe(service.dialled[1]);
});

test("a connection on which the service has sent something is closed instead", async () => {
  await using service = await startService("HTTP/1.1 200 OK\r\n\r\n");
  const spares = createSpareConnections();
  const endpoint = service.endpoint();
  spares.prepare(endpoint, PORT);
  await expect.poll(() => service.dialled[0]?.readableLength).toBeGreaterThan(0);
  expect(spares.take(endpoint, PORT)).toBeUndefined();
  expect(service.dialled[0]?.destroyed).toBe(true);
});

test.for<Readonly<{ what: string; port: number; facts: Partial<Endpoint> }>>([
  { what: "a port of no service of the template", port: 8_000, facts: {} },
  { what: "a port that speaks TLS", port: PORT, facts: { httpsPorts: [PORT] } },
  { what: "a run that has ended", port: PORT, facts: { ended: AbortSignal.abort() } },
])("nothing is dialled for $what", async ({ port, facts }) => {
  await using service = await startService();
  createSpareConnections().prepare(service.endpoint(facts), port);
  expect(service.dialled).toEqual([]);
});

test("a failed dial leaves nothing behind: a later one is made", async () => {
  await using service = await startService();
  const spares = createSpareConnections();
  const working = service.endpoint();
  let failures = 0;
  const endpoint = service.endpoint({
    async dial(port, signal) {
      failures += 1;
      if (failures === 1) throw new Error("nothing listens");
      return working.dial(port, signal);
    },
  });
  spares.prepare(endpoint, PORT);
  await expect
    .poll(() => {
      spares.prepare(endpoint, PORT);
      return spares.take(endpoint, PORT);
    })
    .toBe(service.dialled[0]);
  expect(failures).toBe(2);
});
