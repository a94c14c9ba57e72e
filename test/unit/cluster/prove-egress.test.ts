/** The proof that NetworkPolicies are enforced, where its caller leaves in the middle of it. */

import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { proveEnforcement } from "../../../src/cluster/pods/prove-egress.ts";
import { closeServer, listenOnLoopback } from "../../support/loopback.ts";

const countServers = () =>
  process.getActiveResourcesInfo().filter((name) => name === "TCPServerWrap").length;

test("no port of the front stays open", async () => {
  const daemon = createServer();
  const port = await listenOnLoopback(daemon);
  const before = countServers();
  const leaving = new AbortController();
  const dialer = {
    async dialControl() {
      const socket = connect(port, "127.0.0.1");
      await once(socket, "connect");
      const destroy = socket.destroy.bind(socket);
      return Object.assign(socket, {
        destroy() {
          leaving.abort();
          return destroy();
        },
      });
    },
  };
  await expect(proveEnforcement(dialer, leaving.signal)).rejects.toThrow("aborted");
  // Longer than a server takes to listen.
  await delay(100);
  expect(countServers()).toBe(before);
  await closeServer(daemon);
});

test.for([
  { replies: [false, false], what: "two failed attempts in a row prove it" },
  { replies: [true, false, true, false, false], what: "one lost packet does not" },
])("$what", async ({ replies }) => {
  const left = [...replies];
  await using daemon = createServer((_request, response) => {
    response.end(JSON.stringify({ isReached: left.shift() }));
  });
  const port = await listenOnLoopback(daemon);
  const dialer = {
    async dialControl() {
      const socket = connect(port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    },
  };
  await proveEnforcement(dialer, AbortSignal.timeout(30_000));
  expect(left).toEqual([]);
});
