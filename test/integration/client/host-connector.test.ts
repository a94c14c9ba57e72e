/** Connections of a client to a host of several addresses, with and without TLS. */

import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { Agent, request } from "undici";
import { expect, test } from "vitest";
import { hostConnector } from "../../../src/client/host-connector.ts";
import { causeCode } from "../../../src/common/errors.ts";
import { makeCertificate } from "../../support/certificate.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => "no error",
    (error: unknown) => causeCode(error),
  );
}

test("a host whose first address has no server is reached at another one", async () => {
  const server = createServer((_request, response) => response.end("here"));
  const port = await listenOnLoopback(server);
  const dispatcher = new Agent({ connect: hostConnector() });
  const bodies: string[] = [];
  for (const host of ["localhost", "127.0.0.1"]) {
    const { body } = await request(`http://${host}:${port}/`, { dispatcher });
    bodies.push(await body.text());
  }
  expect(bodies).toEqual(["here", "here"]);
  const closed = once(server, "close");
  server.close();
  await dispatcher.close();
  await closed;
  expect(await codeOf(request(`http://127.0.0.1:${port}/`, { dispatcher: new Agent() }))).toBe(
    await codeOf(
      request(`http://127.0.0.1:${port}/`, {
        dispatcher: new Agent({ connect: hostConnector() }),
      }),
    ),
  );
});

test("a certificate of an unknown authority is refused, and a name without an address", async () => {
  await using certificate = await makeCertificate(["localhost"]);
  const { certificate: cert, key } = certificate.identity;
  const server = createSecureServer({ cert, key }, (_request, response) => response.end());
  const port = await listenOnLoopback(server);
  const dispatcher = new Agent({ connect: hostConnector() });
  expect([
    await codeOf(request(`https://localhost:${port}/`, { dispatcher })),
    await codeOf(request("http://name.invalid/", { dispatcher })),
  ]).toEqual([
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    expect.stringMatching(/^(?:ENOTFOUND|EAI_AGAIN)$/),
  ]);
  await dispatcher.close();
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
});
