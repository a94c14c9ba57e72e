/**
 * A service that is killed while it makes the layer of an image for a build over the wire: the build
 * says how it ended, and no layer stays. `npm run faults` kills at each step, `npm test` at one.
 */

import { writeFile } from "node:fs/promises";
import { Sandbox, Template } from "e2b";
import { expect, test } from "vitest";
import { faultRun } from "../../support/faults/fault-run.ts";
import type { StepPlan } from "../../support/faults/step-listener.ts";
import {
  imageTemplate,
  makeTestImages,
  startImageService,
} from "../../support/images/image-service.ts";
import { startRegistry } from "../../support/images/registry.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const STEPS = [
  "layer.begun",
  "layer.synced",
  "layer.renamed",
  "layer.durable",
  "build.based",
] as const;
const LIMIT_MS = 120_000;
const ENDED = "the service ended while the template was being built";
const { isWhole, random } = faultRun();

test.for(isWhole ? STEPS : [random.pick(STEPS)])(
  "R2 killed at %s of a build from an image",
  { timeout: LIMIT_MS },
  async (step) => {
    await using folder = await makeTempFolder();
    await using registry = await startRegistry({ directory: folder.path });
    await using images = await makeTestImages(["alpine"]);
    await images.push("alpine", registry);
    await using service = await startImageService({ "open.example": registry });
    const before = (await service.layers()).length;
    const planned: StepPlan = { step, action: "kill" };
    await writeFile(service.plan, JSON.stringify(planned));
    const image = "open.example/team/alpine:1";
    const build = await Template.buildInBackground(imageTemplate(image), "mine", service.options);
    expect(await service.program.exited()).toBe("SIGKILL");
    await service.restart();
    const reason = expect.objectContaining({ message: ENDED });
    expect(await Template.getBuildStatus(build, service.options)).toMatchObject({
      status: "error",
      reason,
    });
    await expect(Sandbox.create("mine", service.options)).rejects.toThrow(/not found|tag/i);
    // The layer of an image that a record of the cache names serves the next build.
    const kept = step === "build.based" ? 1 : 0;
    await expect.poll(async () => (await service.layers()).length - before).toBe(kept);
    await service.build("mine", image);
    const sandbox = await Sandbox.create("mine", service.options);
    expect((await sandbox.commands.run("echo $IMAGE")).stdout).toBe("alpine\n");
    await sandbox.kill();
  },
);
