/** What a call is told when no direct connection to the daemon comes about, or when it is cut. */

import { createServer } from "node:http";
import { connect } from "node:net";
import { Agent, request } from "undici";
import { expect, onTestFinished, test } from "vitest";
import { startDirectConnections } from "../../../src/client/direct-connection.ts";
import { closeServer, listenOnLoopback } from "../../support/loopback.ts";

test.for([
  {
    what: "a closed socket",
    cause: new Error("refused"),
    fault: { message: "The sandbox is running but port is not open" },
  },
  {
    what: "a service without descriptors",
    cause: Object.assign(new Error("connect EMFILE"), { code: "EMFILE" }),
    fault: {
      message: "the service has too many open files",
      hint: "close connections and streams, or start the service with a higher limit of open files: ulimit -n, LimitNOFILE of systemd",
    },
  },
])("$what is named as the reason", async ({ cause, fault }) => {
  const ended = new AbortController();
  const gateway = new Agent();
  onTestFinished(() => gateway.close());
  const run = {
    ended: ended.signal,
    dial: () => Promise.reject(cause),
    watch: { wait: () => () => undefined },
  };
  await using direct = startDirectConnections(gateway, () => run);
  const call = request("http://localhost/health", { dispatcher: direct.to("i1") });
  await expect(call).rejects.toMatchObject({ code: "unavailable", ...fault });
});

test("a call that waits when its sandbox is paused or ends is told so", async () => {
  const ended = new AbortController();
  const gateway = new Agent();
  onTestFinished(() => gateway.close());
  const server = createServer(() => ended.abort());
  const port = await listenOnLoopback(server);
  onTestFinished(() => closeServer(server));
  const run = {
    ended: ended.signal,
    dial: async () => connect(port, "127.0.0.1"),
    watch: { wait: () => () => undefined },
  };
  await using direct = startDirectConnections(gateway, () => run);
  const call = request("http://localhost/health", { dispatcher: direct.to("i1") });
  await expect(call).rejects.toMatchObject({
    code: "unavailable",
    message: "the sandbox was paused or ended during the call",
  });
});
