/** The name of a socket appears when it takes connections, and goes before it refuses them. */

import { mkdir, readdir, rename, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { listenAtPath } from "../../../src/common/listen-at-path.ts";
import { isListening } from "../../../src/common/listening.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a socket is bound under another name than the one at which it is found", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "door.sock");
  await writeFile(path, "left by a dead owner");
  await writeFile(`${path}.new`, "left by a dead owner");
  const server = createServer((socket) => socket.destroy());
  const names: string[][] = [];
  server.once("listening", () =>
    names.push([basename(JSON.stringify(server.address()).slice(1, -1))]),
  );
  const stop = await listenAtPath(server, path, async () => {
    names.push(await readdir(folder.path));
    server.close();
  });
  names.push(await readdir(folder.path));
  expect([(await stat(path)).mode & 0o777, await isListening(path)]).toEqual([0o600, true]);
  await stop();
  expect([names, await readdir(folder.path)]).toEqual([[["door.sock.new"], ["door.sock"], []], []]);
});

test("a server that cannot listen leaves nothing", async () => {
  await using folder = await makeTempFolder();
  const server = createServer();
  const path = join(folder.path, "missing", "door.sock");
  const close = async () => {
    server.close();
  };
  await expect(listenAtPath(server, path, close)).rejects.toThrow("listen");
  expect([server.listening, await readdir(folder.path)]).toEqual([false, []]);
});

test("a connection that cannot be taken ends neither the server nor the process", async () => {
  await using folder = await makeTempFolder();
  const server = createServer((socket) => socket.destroy());
  const path = join(folder.path, "door.sock");
  const stop = await listenAtPath(server, path, async () => {
    server.close();
  });
  for (let count = 0; count < 2; count += 1) server.emit("error", new Error("accept EMFILE"));
  expect(await isListening(path)).toBe(true);
  await stop();
});

test("a server ends also where its name cannot be removed", async () => {
  await using folder = await makeTempFolder();
  const server = createServer();
  const parent = join(folder.path, "parent");
  await mkdir(parent);
  const stop = await listenAtPath(server, join(parent, "door.sock"), async () => {
    server.close();
  });
  await rename(parent, `${parent}-before`);
  await writeFile(parent, "no directory any more");
  await stop();
  expect(server.listening).toBe(false);
});
