/** Clients that vanish without a word: the kernel asks for them on every connection over TCP. */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { createWebServer } from "../../src/egress/http-proxy.ts";
import { createPolicies } from "../../src/egress/policies.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { startTestService } from "../support/service.ts";

const LOOPBACK = "127.0.0.1";
/** Of the times in the kernel's table. */
const TICKS_PER_SECOND = 100;
const MAX_SECONDS = 30;

function hex(value: number): string {
  return value.toString(16).toUpperCase().padStart(4, "0");
}

/** Of the accepted end of a connection: the kind of its timer and the seconds until it fires. */
async function readTimer(port: number, clientPort: number) {
  const rows = (await readFile("/proc/self/net/tcp", "utf8")).split("\n");
  const fields = rows.map((row) => row.trim().split(/\s+/));
  const [, , , , , timer = ""] =
    fields.find(
      ([, local = "", remote = ""]) =>
        local.endsWith(`:${hex(port)}`) && remote.endsWith(`:${hex(clientPort)}`),
    ) ?? [];
  const [kind, ticks = ""] = timer.split(":");
  return { kind, isSoon: Number.parseInt(ticks, 16) <= MAX_SECONDS * TICKS_PER_SECOND };
}

test("a silent client is asked for within half a minute, with TLS and without", async () => {
  await using certificate = await makeCertificate(["sandbox.localhost"]);
  const { identity } = certificate;
  const address = { host: LOOPBACK, port: 0 };
  await using service = await startTestService({ tcp: [address, { ...address, tls: identity }] });
  for (const port of service.embedded.ports) {
    const client = connect(port, LOOPBACK);
    try {
      await once(client, "connect");
      const timer = () => readTimer(port, Number(client.localPort));
      // 02 is the timer of the question.
      await expect.poll(timer).toEqual({ kind: "02", isSoon: true });
    } finally {
      client.destroy();
    }
  }
  expect(service.embedded.ports).toHaveLength(2);
});

/** Node itself would look for late heads every 30 seconds only. */
const LATE_MS = 25_000;
const dial = async () => undefined;

test("a client that sends half a head is cut off, at the service and at the egress proxy", async () => {
  await using service = await startTestService({ tcp: [{ host: LOOPBACK, port: 0 }] });
  const proxy = createWebServer({ policies: createPolicies(), dial });
  const ports = [...service.embedded.ports, await listenOnLoopback(proxy)];
  try {
    await Promise.all(
      ports.map(async (port) => {
        const client = connect(port, LOOPBACK);
        client.on("error", () => undefined);
        client.resume();
        client.write("GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: ");
        await once(client, "close", { signal: AbortSignal.timeout(LATE_MS) });
      }),
    );
  } finally {
    proxy.close();
    proxy.closeAllConnections();
  }
  expect(ports).toHaveLength(2);
});
