/** A snapshot for which no client waits any more is not kept, as a sandbox or a fork is not. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { atStep } from "../support/at-step.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ engine: createLayerEngine() });
});
afterAll(() => service[Symbol.asyncDispose]());

test("a client that leaves during a snapshot leaves none, and its name keeps the old one", async () => {
  const { sandboxID } = await service.create();
  const path = `/sandboxes/${sandboxID}/snapshots`;
  const body = { name: "kept" };
  expect(await service.call({ method: "POST", path, body })).toMatchObject({ status: 201 });
  const look = async () => ({
    layers: await readdir(join(service.home, "layers")),
    builds: service.embedded.store.builds.all().map(({ buildId }) => buildId),
    listed: (await service.call({ path: "/snapshots" })).body,
  });
  const before = await look();
  const client = new AbortController();
  const left = Promise.withResolvers<void>();
  using held = atStep("snapshot.intent", async () => {
    client.abort();
    await left.promise;
    // The service reads the end of the connection before what comes after it.
    for (let count = 0; count < 2; count += 1) await service.call({ path: "/v2/sandboxes" });
  });
  const taking = request(`http://localhost${path}`, {
    dispatcher: service.dispatcher,
    method: "POST",
    headers: { "x-api-key": service.embedded.apiKey, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: client.signal,
  });
  await expect(taking).rejects.toThrow("aborted");
  left.resolve();
  // The next one waits until nothing changes.
  await expect
    .poll(
      async () =>
        (
          await service.call({
            path: `/sandboxes/${sandboxID}/timeout`,
            method: "POST",
            body: { timeout: 60 },
          })
        ).status,
    )
    .toBe(204);
  expect(held.wasReached).toBe(true);
  expect(await look()).toEqual(before);
});
