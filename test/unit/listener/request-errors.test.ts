/** What a client is told by a request whose handler fails. */

import { createServer } from "node:http";
import { request } from "undici";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { runRequest } from "../../../src/listener/request-errors.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

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
