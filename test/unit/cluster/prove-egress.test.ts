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
