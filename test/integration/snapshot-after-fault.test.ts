/** Snapshots that are committed when the database cannot be read for a moment: they are answered. */

import { expect, test } from "vitest";
import { diskFullError } from "../../src/common/errors.ts";
import { atStep } from "../support/at-step.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService } from "../support/service.ts";

test("a snapshot that exists is answered though its old builds cannot be looked up yet", async () => {
  await using service = await startTestService({ engine: createLayerEngine() });
  const { templates } = service.embedded.store;
  const getByName = templates.getByName.bind(templates);
  const { sandboxID } = await service.create();
  let reads = 0;
  using committed = atStep("snapshot.committed", async () => {
    templates.getByName = (name) => {
      reads += 1;
      if (reads === 1) throw diskFullError("database");
      return getByName(name);
    };
  });
  const path = `/sandboxes/${sandboxID}/snapshots`;
  const { status } = await service.call({ method: "POST", path, body: { name: "kept" } });
  expect({ status, wasReached: committed.wasReached }).toEqual({ status: 201, wasReached: true });
  await expect.poll(() => reads, { timeout: 10_000 }).toBe(2);
});
