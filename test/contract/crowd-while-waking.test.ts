/** Requests that wait for one sandbox to wake come to it at once, and its limit of connections holds. */

import { createServer } from "node:http";
import { Agent, request } from "undici";
import { expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { createGateway } from "../../src/gateway/handler.ts";
import type { Endpoint } from "../../src/sandboxes/run.ts";
import { closedEndpoint } from "../support/control/endpoint.ts";
import { listenOnLoopback } from "../support/loopback.ts";

const LIMIT = 512;
const BEYOND = 8;

test("a sandbox that wakes for a crowd gets as many connections as one that runs", async () => {
  const open = Promise.withResolvers<never>();
  let dials = 0;
  const endpoint = closedEndpoint({
    async dial() {
      dials += 1;
      return open.promise;
    },
  });
  const woken = Promise.withResolvers<Endpoint>();
  const allWait = Promise.withResolvers<void>();
  let waiting = 0;
  const gateway = createGateway({
    sandboxes: {
      locate: () => undefined,
      endpoints: () => [],
      stopped: () => [],
      async wake() {
        waiting += 1;
        if (waiting === LIMIT + BEYOND) allWait.resolve();
        return woken.promise;
      },
    },
    keys: { isKey: () => false, given: [] },
    isShared: () => false,
    clock: createSystemClock(),
    log: createSilentLog(),
  });
  await using outer = createServer((incoming, response) => {
    const address = { sandboxId: endpoint.sandboxId, port: 8080 };
    void gateway.handle(incoming, response, { address, hasOwnHost: false });
  });
  const port = await listenOnLoopback(outer);
  const dispatcher = new Agent();
  const replies = Promise.all(
    Array.from({ length: LIMIT + BEYOND }, async () => {
      const { statusCode, body } = await request(`http://127.0.0.1:${port}`, { dispatcher });
      await body.dump();
      return statusCode;
    }),
  );
  await allWait.promise;
  woken.resolve(endpoint);
  // Each of them goes on in this turn.
  await new Promise(setImmediate);
  open.reject(new Error("nothing listens"));
  const refused = (await replies).filter((status) => status === 429);
  await dispatcher.close();
  expect([dials, refused.length]).toEqual([LIMIT, BEYOND]);
});
