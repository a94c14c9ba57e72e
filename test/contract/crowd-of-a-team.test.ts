/** A crowd of calls of one team does not make those of another team wait for all of it. */

import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { startTestService } from "../support/service.ts";

/** Of 25 calls each, in one piece: a connection that sends more ahead would end. */
const CONNECTIONS = 8;
const CROWD = CONNECTIONS * 25;

test("a call of another team is answered before the crowd that came first", async () => {
  const answered: unknown[] = [];
  const debug = (entry: { readonly sandboxId?: string }) => void answered.push(entry.sandboxId);
  const log = Object.assign(createSilentLog(), { debug });
  await using service = await startTestService({ log });
  const { store, socketPath } = service.embedded;
  const open = async (team: string) => {
    const { key } = createKey(store, createSystemClock(), { name: team, team });
    const socket = connect(socketPath);
    await once(socket, "connect");
    const head = `host: localhost\r\nx-api-key: ${key}`;
    const call = `GET /sandboxes/${team} HTTP/1.1\r\n${head}\r\n\r\n`;
    return { socket, call, [Symbol.dispose]: () => void socket.destroy() };
  };
  using stack = new DisposableStack();
  const crowd = await Promise.all(Array.from({ length: CONNECTIONS }, async () => open("many")));
  for (const one of crowd) stack.use(one);
  using few = await open("few");
  // All of them are there before the other one.
  for (const { socket, call } of crowd) socket.resume().write(call.repeat(CROWD / CONNECTIONS));
  few.socket.resume().write(few.call);
  await expect.poll(() => answered.filter((id) => id === "many").length).toBe(CROWD);
  expect(answered).toContain("few");
  expect(answered.indexOf("few")).toBeLessThan(CROWD / 2);
});
