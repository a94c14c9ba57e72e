/** Daemons and services that send interim replies without end in the place of an answer. */

import { generateKeyPairSync } from "node:crypto";
import { connect, createServer, type Socket } from "node:net";
import { Agent, request } from "undici";
import { expect, test } from "vitest";
import { openDaemonClient } from "../../../src/client/daemon-client.ts";
import { startDirectConnections } from "../../../src/client/direct-connection.ts";
import { createService } from "../../../src/client/service.ts";
import { createPodDialer } from "../../../src/cluster/pods/dial.ts";
import { openPort } from "../../../src/engine/network/container-sockets.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

const FLOOD = Buffer.from("HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n".repeat(100));

/** Sends until the peer has had enough. */
function flood(socket: Socket): void {
  const send = () => {
    while (!socket.destroyed && socket.write(FLOOD)) continue;
  };
  socket.on("error", () => undefined).on("drain", send);
  socket.once("data", send);
}

async function startFlood() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    flood(socket);
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const { signal } = new AbortController();
const TOLD = expect.stringContaining("too many interim replies");

test("a port of a container", async () => {
  await using daemon = await startFlood();
  const dialControl = async () => connect(daemon.port, "127.0.0.1");
  await expect(openPort(dialControl, 8080, signal)).rejects.toMatchObject({ message: TOLD });
});

test("the daemon of a Pod", async () => {
  await using daemon = await startFlood();
  const { privateKey: passKey } = generateKeyPairSync("ed25519");
  const address = { podName: "p", host: "127.0.0.1", port: daemon.port, passKey };
  const dialer = createPodDialer(address, async () => undefined);
  await expect(dialer.dialControl(signal)).rejects.toMatchObject({ message: TOLD });
});

test("a program that a service starts in a sandbox", async () => {
  await using daemon = await startFlood();
  const dial = async () => connect(daemon.port, "127.0.0.1");
  await using client = openDaemonClient({ sandboxId: "i1", token: undefined, dial });
  const wanted = { cmd: "true", args: [], env: {}, hasStdin: false };
  const events = client.process.start(wanted, { signal });
  await expect(events.next()).rejects.toMatchObject({ message: TOLD });
});

test("a service that is called", async () => {
  await using remote = await startFlood();
  await using service = createService({ url: `http://127.0.0.1:${remote.port}`, apiKey: "key" });
  await expect(service.control.get("i1", signal)).rejects.toMatchObject({ message: TOLD });
});

test("the daemon of a sandbox of this process", async () => {
  await using daemon = await startFlood();
  const run = {
    ended: signal,
    dial: async () => connect(daemon.port, "127.0.0.1"),
    watch: { wait: () => () => undefined },
  };
  const gateway = new Agent();
  await using direct = startDirectConnections(gateway, () => run);
  const asked = request("http://localhost/health", { dispatcher: direct.to("i1") });
  await expect(asked).rejects.toMatchObject({ message: TOLD });
  await gateway.destroy();
});
