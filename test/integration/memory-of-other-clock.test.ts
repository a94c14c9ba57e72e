/** Memory of a daemon that was told of its sandbox by a clock that was ahead. */

import { expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { initDaemon } from "../../src/sandboxes/boot/boot.ts";
import { sandboxSchema } from "../../src/wire/control.ts";
import { createMemoryEngine } from "../support/engine/memory-engine.ts";
import { startTestService } from "../support/service.ts";

const OLD_TOKEN = "token-of-the-parent";
const YEAR_MS = 365 * 86_400_000;

/** Whose containers with memory have a daemon that belongs to another sandbox already. */
function createAheadEngine(): Engine {
  const { engine } = createMemoryEngine();
  return {
    ...engine,
    async create(spec, signal) {
      const container = await engine.create(spec, signal);
      const timestamp = new Date(Date.now() + YEAR_MS).toISOString();
      const init = { accessToken: OLD_TOKEN, timestamp };
      if (spec.memory !== undefined) await initDaemon(container, init, signal);
      return container;
    },
  };
}

test("a sandbox from memory takes its own token, and not that of the memory", async () => {
  await using service = await startTestService({ engine: createAheadEngine() });
  const { sandboxID } = await service.create();
  const shot = { name: "ahead" };
  await service.call({ method: "POST", path: `/sandboxes/${sandboxID}/snapshots`, body: shot });
  const body = { templateID: "ahead", secure: true };
  const reply = await service.call({ method: "POST", path: "/v2/sandboxes", body });
  expect(reply.body).toMatchObject({ memory: true });
  const made = sandboxSchema.parse(reply.body);
  const list = async (token: string | null | undefined) => {
    const headers = { "x-access-token": token ?? "" };
    return (await service.enter(made, { path: "/files?path=/etc/hostname", headers })).status;
  };
  expect([await list(made.envdAccessToken), await list(OLD_TOKEN)]).toEqual([200, 401]);
});
