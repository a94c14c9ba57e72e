/** A host with several addresses is reached by the first that answers, and by one connection. */

import { once } from "node:events";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { alternateFamilies, dialFirst } from "../../../src/common/sockets.ts";
import { dialName, type NameResolver } from "../../../src/egress/resolver.ts";
import { countSocketsTo, openSilentAddress } from "../../support/network/silent-address.ts";

const [SILENT, ANSWERING] = ["127.0.0.2", "127.0.0.3"];
/** Less than what one address may take. */
const PATIENCE_MS = 7_000;

async function startServer(port: number) {
  const server = createServer((socket) => socket.on("error", () => undefined));
  server.listen(port, ANSWERING);
  await once(server, "listening");
  return {
    address: ANSWERING,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}

test.for([
  [
    ["4.1", "4.2", "::1", "::2", "::3"],
    ["4.1", "::1", "4.2", "::2", "::3"],
  ],
  [
    ["::1", "4.1"],
    ["::1", "4.1"],
  ],
  [[], []],
] as const)("%j are tried as %j", ([addresses, order]) => {
  expect(alternateFamilies(addresses)).toEqual(order);
});

test("an address that does not answer holds up no other one, and is left", async () => {
  await using silent = await openSilentAddress(SILENT);
  await using server = await startServer(silent.port);
  const { port } = silent;
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const socket = await dialFirst({ addresses: [SILENT, SILENT, ANSWERING], port, signal });
  expect([socket.remoteAddress, await countSocketsTo(port)]).toEqual([server.address, 1]);
  socket.destroy();
});

test("a name of a sandbox's rules is reached in the same way", async () => {
  await using silent = await openSilentAddress(SILENT);
  await using server = await startServer(silent.port);
  const resolver: NameResolver = {
    lookup: async () => ({
      outcome: "found",
      addresses: [SILENT, ANSWERING],
      untilMs: Infinity,
    }),
  };
  const dialing = dialName(resolver, { sender: "10.0.0.2", name: "name.test", port: silent.port });
  const given = AbortSignal.timeout(PATIENCE_MS);
  const socket = await Promise.race([dialing, once(given, "abort").then(() => "too late")]);
  expect(socket).toMatchObject({ remoteAddress: server.address });
  (await dialing)?.destroy();
});

test("an attempt that is given up leaves nothing open", async () => {
  await using silent = await openSilentAddress(SILENT);
  const { port } = silent;
  const controller = new AbortController();
  const dialing = dialFirst({ addresses: [SILENT], port, signal: controller.signal });
  controller.abort(new Error("given up"));
  await expect(dialing).rejects.toThrow("given up");
  expect(await countSocketsTo(port)).toBe(0);
});

test("what the first address said is told when none answers", async () => {
  await using silent = await openSilentAddress(SILENT);
  const signal = AbortSignal.timeout(PATIENCE_MS);
  // The port is that program's, so that nothing else listens there.
  const addresses = [ANSWERING, "127.0.0.4"];
  await expect(dialFirst({ addresses, port: silent.port, signal })).rejects.toThrow(
    `connect ECONNREFUSED ${ANSWERING}`,
  );
  await expect(dialFirst({ addresses: [], port: silent.port, signal })).rejects.toThrow(
    "no address",
  );
});
