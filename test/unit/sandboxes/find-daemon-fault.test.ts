/** The question whether a daemon answers, where the engine may know it without a new connection. */

import { createServer } from "node:http";
import { connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { findDaemonFault } from "../../../src/sandboxes/boot/find-daemon-fault.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

/** A daemon that counts the connections to it; `isAnswering` is what the engine says of it. */
async function startDaemon(isAnswering?: () => Promise<boolean>) {
  let dials = 0;
  const server = createServer((_request, response) => response.writeHead(204).end());
  const port = await listenOnLoopback(server);
  onTestFinished(() => void server.close());
  const dial = async () => {
    dials += 1;
    return connect(port, "127.0.0.1");
  };
  const container = { isAnswering, dialPublic: dial };
  const closing = new AbortController().signal;
  return { dials: () => dials, find: async () => findDaemonFault({ closing }, { container }) };
}

test.for([
  { name: "that answers on an open connection", isAnswering: async () => true, dials: 0 },
  { name: "of which that is not known", isAnswering: async () => false, dials: 1 },
  { name: "that has no open connection", isAnswering: undefined, dials: 1 },
])("a daemon $name is asked on $dials new ones", async ({ isAnswering, dials }) => {
  const daemon = await startDaemon(isAnswering);
  expect(await daemon.find()).toBeUndefined();
  expect(daemon.dials()).toBe(dials);
});
