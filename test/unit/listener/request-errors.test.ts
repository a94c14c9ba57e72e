/** What a client is told by a request whose handler fails. */

import { createServer, type ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { request } from "undici";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { runRequest } from "../../../src/listener/request-errors.ts";
import { heldBytes } from "../../support/collect-now.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

const HOUR_MS = 3_600_000;
const REPLIES = 20;

/** It has nothing of its caller but the operation. */
function startTimer(): NodeJS.Timeout {
  return setTimeout(() => undefined, HOUR_MS).unref();
}

test("a fault of the service is a refusal like any other: with its word, and not to be repeated", async () => {
  const log = createSilentLog();
  await using server = createServer((incoming, response) =>
    runRequest({ request: incoming, response }, log, async () => {
      throw new Error("/srv/secret");
    }),
  );
  const port = await listenOnLoopback(server);
  const { statusCode, headers, body } = await request(`http://127.0.0.1:${port}/`);
  expect([statusCode, headers["should-retry"], await body.json()]).toEqual([
    500,
    "false",
    { code: 500, message: "internal error", error_code: "internal_server_error" },
  ]);
});

test("a timer that a request started does not hold its reply when that is over", async () => {
  const log = createSilentLog();
  const replies: WeakRef<ServerResponse>[] = [];
  const timers: NodeJS.Timeout[] = [];
  await using server = createServer((incoming, response) => {
    replies.push(new WeakRef(response));
    runRequest({ request: incoming, response }, log, async () => {
      timers.push(startTimer());
      response.end();
    });
  });
  const port = await listenOnLoopback(server);
  const ask = async () => {
    const { body } = await request(`http://127.0.0.1:${port}/`, { reset: true });
    await body.dump();
  };
  for (let count = 0; count < REPLIES; count += 1) await ask();
  await expect
    .poll(async () => {
      // A reference that was looked at lasts until the next turn.
      await nextTurn();
      heldBytes();
      return replies.filter((reply) => reply.deref() !== undefined).length;
    })
    .toBe(0);
  expect(timers).toHaveLength(REPLIES);
  for (const timer of timers) clearTimeout(timer);
});
