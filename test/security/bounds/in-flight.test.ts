/** What a team has in the memory of the service at once is bounded, and no other team waits for it. */

import { once } from "node:events";
import { request as openRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { request } from "undici";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { createKey } from "../../../src/sandboxes/keys.ts";
import { GIVES_BACK, startMeasuredServe } from "../../support/load/measured-serve.ts";
import type { MemoryReport } from "../../support/load/memory-listener.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const MIB = 1_048_576;
const BODY_BYTES = 15 * MIB;
const AT_ONCE = 6;
const REFUSED = IS_WHOLE_RUN ? 1_000 : 10;
const WARM_UP = 6;
/** A thousand of them are 15 GB. */
const LONG_TEST_MS = 400_000;
/** After forced collections: garbage that waits for its collector is no growth. Less than one body. */
const MAX_HELD_BYTES = 4 * MIB;
const MAX_GROWTH_BYTES = 96 * MIB;

const heldBytes = ({ heapUsed, external }: MemoryReport): number => heapUsed + external;

/** A create whose body never ends. */
function openCreate({ embedded }: TestService, key: string): ClientRequest {
  const call = openRequest({
    socketPath: embedded.socketPath,
    path: "/v2/sandboxes",
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
  });
  call.on("error", () => undefined);
  return call;
}

test("E44 bodies of a team are 64 MiB at once, and another team has its own", async () => {
  await using service = await startTestService();
  const { store, apiKey } = service.embedded;
  const other = createKey(store, createSystemClock(), { name: "x", team: "others" }).key;
  const calls = Array.from({ length: AT_ONCE }, () => openCreate(service, apiKey));
  const replies = calls.map(async (call) => {
    const [reply]: IncomingMessage[] = await once(call, "response");
    return reply;
  });
  for (const reply of replies) void reply.catch(() => undefined);
  for (const call of calls) call.write(Buffer.alloc(BODY_BYTES, " "));
  const refused = await Promise.race(replies);
  if (refused === undefined) throw new Error("no reply");
  expect([refused.statusCode, refused.headers["retry-after"]]).toEqual([429, "1"]);
  expect(await text(refused)).toContain("67108864 bytes at once");
  const body = { templateID: "none", metadata: { m: "x".repeat(60_000) } };
  const theirs = await service.call({
    method: "POST",
    path: "/v2/sandboxes",
    body,
    headers: { "x-api-key": other },
  });
  expect(theirs.status).toBe(404);
  for (const call of calls) call.destroy();
  // Whatever was held is given back with its call.
  const again = { method: "POST", path: "/v2/sandboxes", body } as const;
  await expect.poll(async () => (await service.call(again)).status).toBe(404);
});

/** Creates that are refused for their metadata. */
async function refuse(url: string, apiKey: string, amount: number): Promise<readonly number[]> {
  const metadata = { m: "x".repeat(15_000_000) };
  const body = Buffer.from(JSON.stringify({ templateID: "base", metadata }));
  const statuses: number[] = [];
  let left = amount;
  const caller = async () => {
    while (left > 0) {
      left -= 1;
      const reply = await request(`${url}/v2/sandboxes`, {
        method: "POST",
        headers: { "x-api-key": apiKey, "content-type": "application/json" },
        body,
      });
      statuses.push(reply.statusCode);
      await reply.body.dump();
    }
  };
  await Promise.all([caller(), caller()]);
  return statuses;
}

test(
  "E44 the service is no larger after many creates of 15 MB that it refuses",
  async (context) => {
    await using serve = await startMeasuredServe(["--pool", "0"], GIVES_BACK);
    const { url, apiKey } = serve;
    await refuse(url, apiKey, WARM_UP);
    const before = await serve.measure();
    const statuses = await refuse(url, apiKey, REFUSED);
    expect(new Set(statuses)).toEqual(new Set([400]));
    const after = await serve.measure();
    expect(heldBytes(after) - heldBytes(before)).toBeLessThan(MAX_HELD_BYTES);
    expect(after.rss - before.rss).toBeLessThan(MAX_GROWTH_BYTES);
    tellCells(context, statuses.length);
  },
  LONG_TEST_MS,
);
