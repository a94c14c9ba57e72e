/** Forks whose copy cannot be released when they have started, as on a full disk: they are answered. */

import { expect, test } from "vitest";
import { diskFullError } from "../../src/common/errors.ts";
import { z } from "../../src/common/schema.ts";
import { createdSandboxSchema } from "../../src/wire/control.ts";
import { atStep } from "../support/at-step.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService } from "../support/service.ts";

const forksSchema = z.array(z.object({ sandbox: createdSandboxSchema }));

test("forks that started are answered though their copy cannot be released yet", async () => {
  await using service = await startTestService({ engine: createLayerEngine() });
  const { sandboxes } = service.embedded.store;
  const countOfBuild = sandboxes.countOfBuild.bind(sandboxes);
  const { sandboxID } = await service.create();
  let refusals = 0;
  using started = atStep("fork.started", async () => {
    sandboxes.countOfBuild = (buildId) => {
      refusals += 1;
      if (refusals === 1) throw diskFullError("database");
      return countOfBuild(buildId);
    };
  });
  const path = `/sandboxes/${sandboxID}/fork`;
  const { status, body } = await service.call({ method: "POST", path, body: { count: 2 } });
  expect({ status, wasReached: started.wasReached }).toEqual({ status: 201, wasReached: true });
  const forks = forksSchema.parse(body).map(({ sandbox }) => sandbox.sandboxID);
  expect(forks).toHaveLength(2);
  await expect.poll(() => refusals, { timeout: 10_000 }).toBe(2);
});
