/**
 * A template that is removed while a build of another one stands on it: that build goes on, and has its
 * layers from then on.
 */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { atStep } from "../support/at-step.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService } from "../support/service.ts";

const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

test.for([
  { command: "exit 3", state: "error", layers: 0 },
  { command: "true", state: "ready", layers: 2 },
] as const)(
  "a build of $command that ends as $state leaves $layers layers",
  async ({ command, state, layers }) => {
    await using service = await startTestService({ engine: createLayerEngine() });
    const { sandboxes } = service.embedded;
    const { builds, templates } = sandboxes;
    const { sandboxID } = await service.create();
    await sandboxes.snapshot(sandboxID, "below");
    const wanted = { name: "above", tags: [], cpus: undefined, memoryMb: undefined };
    const { template, build } = builds.request(wanted);
    using started = atStep("build.started", () => templates.remove("below"));
    await builds.start(template.templateId, build.buildId, {
      from: { kind: "template", reference: "below" },
      force: false,
      steps: [{ type: "RUN", args: [command], force: false }],
      startCommand: undefined,
      readyCommand: undefined,
    });
    const ended = () => builds.status(template.templateId, build.buildId, FILTER).build.status;
    await expect.poll(ended, { timeout: 10_000 }).toBe(state);
    expect(started.wasReached).toBe(true);
    const folders = () => readdir(join(service.home, "layers"));
    await expect.poll(folders).toHaveLength(layers);
  },
);
