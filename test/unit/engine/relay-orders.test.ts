/** Orders to the relay of a container: one whose relay dies before the answer is given to the next relay. */

import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { pausedByKernel, type RelayDial } from "../../../src/engine/gvisor/relay.ts";
import { openProcessGroup } from "../../../src/engine/oci/process-group.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Starts nothing: what stands for the relays is there. */
const again: RelayDial = async (dial) => dial().catch(dial);

/** A relay that answers each order by the next of these; without one it ends the connection. */
async function startRelays(answers: string[]) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const orders: string[] = [];
  const server = createServer((socket) => {
    socket.once("data", (line) => {
      orders.push(line.toString());
      socket.end(answers.shift() ?? "");
    });
  });
  await mkdir(join(folder.path, "runtime"));
  server.listen(join(folder.path, "runtime/orders.sock"));
  await once(server, "listening");
  stack.defer(() => void server.close());
  const owned = stack.move();
  const cgroup = pausedByKernel(openProcessGroup("i0", folder.path), folder.path, again);
  return { cgroup, orders, [Symbol.asyncDispose]: async () => owned.disposeAsync() };
}

test("an order without an answer is given once more", async () => {
  await using relays = await startRelays(["", "paused\n"]);
  await relays.cgroup.freeze();
  expect(relays.orders).toEqual(["pause\n", "pause\n"]);
});

test("an order that was refused is not repeated", async () => {
  await using relays = await startRelays(["failed\n", "paused\n"]);
  await expect(relays.cgroup.freeze()).rejects.toThrow("the container did not pause");
  expect(relays.orders).toEqual(["pause\n"]);
});
