/** A crowd of messages of one team at `/mcp` does not make those of another team wait for all of it. */

import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { startServeMcp } from "../../src/commands/serve-mcp.ts";
import { createSystemClock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { loadConfig } from "../../src/config.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { startTestService } from "../support/service.ts";

const CROWD = 60;
const MESSAGE = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });

const loaded = loadConfig({}, []);

test("a message of another team is answered before the crowd that came first", async () => {
  await using service = await startTestService({
    startMcp: async (listener, keys) => {
      if (!("config" in loaded)) throw new Error("no configuration");
      const options = { config: loaded.config, log: createSilentLog(), publicUrl: listener.url };
      return startServeMcp({ ...options, listener, keys });
    },
  });
  const { store, socketPath } = service.embedded;
  await using stack = new AsyncDisposableStack();
  const answered: string[] = [];
  const headers = ["host: localhost", "content-type: application/json"];
  const keyOf = (team: string) => createKey(store, createSystemClock(), { name: team, team }).key;
  const keys = { many: keyOf("many"), few: keyOf("few") };
  const open = async (team: keyof typeof keys) => {
    const socket = connect(socketPath);
    stack.defer(() => void socket.destroy());
    await once(socket, "connect");
    const own = [`authorization: Bearer ${keys[team]}`, `content-length: ${MESSAGE.length}`];
    const head = ["POST /mcp HTTP/1.1", ...headers, ...own].join("\r\n");
    const send = () => socket.write(`${head}\r\n\r\n${MESSAGE}`);
    // The server takes one connection in each turn: it has this one once it has answered.
    send();
    await once(socket, "data");
    socket.once("data", () => answered.push(team));
    return send;
  };
  const crowd = await Promise.all(Array.from({ length: CROWD }, () => open("many")));
  const all = [...crowd, await open("few")];
  for (const send of all) send();
  await expect.poll(() => answered.length).toBe(CROWD + 1);
  expect(answered.indexOf("few")).toBeLessThan(CROWD / 2);
});
