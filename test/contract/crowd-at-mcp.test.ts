/** A crowd of messages of one team at `/mcp` does not make those of another team wait for all of it. */

import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { startServeMcp } from "../../src/commands/serve/serve-mcp.ts";
import { createSystemClock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { loadConfig } from "../../src/config.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { startTestService } from "../support/service.ts";

const CROWD = 60;
const MESSAGE = { jsonrpc: "2.0", id: 1, method: "ping" };
const HEADERS = [
  "host: localhost",
  "content-type: application/json",
  "accept: application/json, text/event-stream",
];

const loaded = loadConfig({}, []);

async function startWorld() {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(
    await startTestService({
      startMcp: async (listener, keys) => {
        if (!("config" in loaded)) throw new Error("no configuration");
        const options = { config: loaded.config, log: createSilentLog(), publicUrl: listener.url };
        return startServeMcp({ ...options, listener, keys });
      },
    }),
  );
  const { store, socketPath } = service.embedded;
  const keyOf = (team: string) => createKey(store, createSystemClock(), { name: team, team }).key;
  const keys = { many: keyOf("many"), few: keyOf("few") };
  const sockets = stack.use(new AsyncDisposableStack());
  const owned = stack.move();
  return {
    /** A connection of a team that the server has taken, and what it has sent back. */
    async open(team: keyof typeof keys) {
      const socket = connect(socketPath);
      sockets.defer(() => void socket.destroy());
      await once(socket, "connect");
      const told = { text: "" };
      socket.on("data", (chunk: Buffer) => {
        told.text += chunk.toString("utf8");
      });
      const send = (body: unknown, ...headers: string[]): void => {
        const text = JSON.stringify(body);
        const own = [`authorization: Bearer ${keys[team]}`, `content-length: ${text.length}`];
        const lines = ["POST /mcp HTTP/1.1", ...HEADERS, ...own, ...headers];
        socket.write(`${lines.join("\r\n")}\r\n\r\n${text}`);
      };
      // The server takes one connection in each turn: it has this one once it has answered.
      send(MESSAGE);
      await expect.poll(() => told.text).toContain("Missing session");
      told.text = "";
      return { socket, told, send };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test("a message of another team is answered before the crowd that came first", async () => {
  await using world = await startWorld();
  const crowd = await Promise.all(Array.from({ length: CROWD }, () => world.open("many")));
  const few = await world.open("few");
  const answered: string[] = [];
  for (const { socket } of crowd) socket.once("data", () => answered.push("many"));
  few.socket.once("data", () => answered.push("few"));
  for (const { send } of [...crowd, few]) send(MESSAGE);
  await expect.poll(() => answered.length).toBe(CROWD + 1);
  expect(answered.indexOf("few")).toBeLessThan(CROWD / 2);
});

test("a message of another team is answered before the end of a batch that came first", async () => {
  await using world = await startWorld();
  const [many, few] = [await world.open("many"), await world.open("few")];
  const info = { name: "crowd", version: "1" };
  const params = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: info };
  many.send({ ...MESSAGE, method: "initialize", params });
  await expect.poll(() => many.told.text).toContain("serverInfo");
  const session = /mcp-session-id: \S+/i.exec(many.told.text)?.[0] ?? "";
  const batch = Array.from({ length: CROWD }, (_, index) => ({ ...MESSAGE, id: index }));
  const replies = () => many.told.text.split('"result":{}').length - 1;
  const before = { replies: CROWD };
  few.socket.once("data", () => {
    before.replies = replies();
  });
  many.send(batch, session);
  few.send(MESSAGE);
  await expect.poll(replies).toBe(CROWD);
  expect(before.replies).toBeLessThan(CROWD / 2);
});
