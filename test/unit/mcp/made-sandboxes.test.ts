/** The sandboxes that a server made, of which most have ended by themselves when it ends. */

import { createServer } from "node:http";
import { afterEach, expect, test, vi } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

/** As many as are killed at once. */
const AT_ONCE = 8;

const idOf = (number: number) => `i${String(number).padStart(20, "0")}`;

afterEach(() => {
  vi.useRealTimers();
});

test("the newest sandboxes are killed first, and all while there is time", async () => {
  // A machine under load is not out of time.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const asked: string[] = [];
  await using server = createServer((request, response) => {
    asked.push(request.url ?? "");
    // None is answered before all that may come at once have come.
    if (asked.length < AT_ONCE) waiting.push(response);
    else for (const each of [...waiting.splice(0), response]) each.writeHead(204).end();
  });
  const waiting: { writeHead(status: number): { end(): unknown } }[] = [];
  const url = `http://127.0.0.1:${await listenOnLoopback(server)}`;
  await using service = createService({ url, apiKey: "key" });
  const state = startMcpState({
    service: () => service,
    log: createSilentLog(),
    onExit: () => "kill",
  });
  for (let number = 0; number < 100; number += 1) state.adopt(idOf(number));
  await state[Symbol.asyncDispose]();
  const newest = Array.from({ length: AT_ONCE }, (_, index) => `/sandboxes/${idOf(92 + index)}`);
  expect(asked.slice(0, AT_ONCE).toSorted()).toEqual(newest);
  expect(new Set(asked).size).toBe(100);
});

test("of very many the newest are remembered", async () => {
  await using state = startMcpState({
    service: () => {
      throw new Error("no call is made");
    },
    log: createSilentLog(),
    onExit: () => "leave",
  });
  for (let number = 0; number < 5_000; number += 1) state.adopt(idOf(number));
  expect([state.made.size, state.made.has(idOf(0)), state.made.has(idOf(4_999))]).toEqual([
    4_096,
    false,
    true,
  ]);
});
