/** Sockets whose paths are longer than an address: listened on, reached, told from dead ones. */

import { mkdir, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { Agent, request } from "undici";
import { expect, test } from "vitest";
import { socketConnector } from "../../src/client/socket-connector.ts";
import { isListening } from "../../src/common/listening.ts";
import { openServer } from "../../src/listener/open-server.ts";
import { isLeased, startLease } from "../../src/spool/lease.ts";
import { DEEP_FOLDER } from "../support/home.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

test("a server is reached at a deep path, and leaves none there", async () => {
  await using folder = await makeTempFolder();
  const deep = join(folder.path, DEEP_FOLDER);
  await mkdir(deep, { recursive: true });
  const path = join(deep, "door.sock");
  expect(await isListening(path)).toBe(false);
  const answering = createServer((_request, response) => response.end("here"));
  const open = await openServer(answering, { kind: "unix", path });
  expect(await isListening(path)).toBe(true);
  const dispatcher = new Agent({ connect: socketConnector(path) });
  const { body } = await request("http://localhost/", { dispatcher });
  expect(await body.text()).toBe("here");
  await dispatcher.close();
  await open.close();
  expect(await readdir(deep)).toEqual([]);
  expect(await isListening(path)).toBe(false);
  const late = new Agent({ connect: socketConnector(path) });
  await expect(request("http://localhost/", { dispatcher: late })).rejects.toThrow("ENOENT");
  await late.close();
});

test("a lease holds at a deep path", async () => {
  await using folder = await makeTempFolder();
  const deep = join(folder.path, DEEP_FOLDER);
  await mkdir(deep, { recursive: true });
  const owner = "0123456789abcdef";
  const lease = await startLease(deep, owner);
  expect(await isLeased(deep, owner)).toBe(true);
  await lease[Symbol.asyncDispose]();
  expect(await isLeased(deep, owner)).toBe(false);
  expect(await isLeased(join(deep, "none"), owner)).toBe(false);
});
