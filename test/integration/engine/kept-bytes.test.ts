/** What waits of a container's connection while nothing reads it: each small piece is an object of its own. */

import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { dialSocket } from "../../../src/engine/network/container-sockets.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const BYTES = 20_000;
const MAX_KEPT = 8_192;

test("few of the bytes that a container sends one by one are kept", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "socket");
  const server = createServer();
  server.listen(path);
  await once(server, "listening");
  const accepted = once(server, "connection");
  const socket = await dialSocket(path, new AbortController().signal);
  const [peer] = await accepted;
  socket.pause();
  socket.read(0);
  for (let count = 0; count < BYTES; count += 1) {
    peer.write("x");
    await nextTurn();
  }
  expect(socket.readableLength).toBeGreaterThan(0);
  expect(socket.readableLength).toBeLessThan(MAX_KEPT);
  let read = 0;
  socket.on("data", (chunk: Buffer) => (read += chunk.length));
  socket.resume();
  await expect.poll(() => read).toBe(BYTES);
  socket.destroy();
  peer.destroy();
  server.close();
  await once(server, "close");
});
