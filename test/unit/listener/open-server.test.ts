/** An address that cannot be opened: why, and what to do about it. */

import { createServer } from "node:http";
import { expect, test } from "vitest";
import { openServer } from "../../../src/listener/open-server.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

test("a port that another program has", async () => {
  await using other = createServer();
  const port = await listenOnLoopback(other);
  await expect(
    openServer(createServer(), { kind: "tcp", host: "127.0.0.1", port }),
  ).rejects.toMatchObject({
    code: "unavailable",
    message: `cannot listen on 127.0.0.1:${port}`,
    hint: "another program listens there: end it, or choose another port, 0 for any free one",
  });
});

test("a name that leads nowhere", async () => {
  await expect(
    // No name has an empty label, so that no name server is asked.
    openServer(createServer(), { kind: "tcp", host: "a..b", port: 0 }),
  ).rejects.toMatchObject({
    code: "unavailable",
    message: "cannot listen on a..b:0",
    hint: "this machine finds no address of that name: choose one, such as 127.0.0.1 or ::1",
  });
});

test("an address that this machine does not have", async () => {
  await expect(
    // Of TEST-NET-1, which no machine has.
    openServer(createServer(), { kind: "tcp", host: "192.0.2.1", port: 0 }),
  ).rejects.toMatchObject({
    code: "unavailable",
    message: "cannot listen on 192.0.2.1:0",
    hint: "this machine has no such address: choose another one",
  });
});
