/** Sandboxes that were paused for want of disk space, and one of them that cannot be resumed. */

import assert from "node:assert/strict";
import { expect, test } from "vitest";
import { SandboxError } from "../../src/common/errors.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService } from "../support/service.ts";

/** More than any disk has. */
const TOO_MUCH = 2 ** 60;
const MEBIBYTE = 1024 ** 2;
const WAIT = { timeout: 20_000, interval: 20 };
const LIMIT_MS = 60_000;

/** An engine whose disks say what a test wants. */
function createDiskEngine() {
  const layered = createLayerEngine();
  const writers = new Set<string>();
  const broken = new Set<string>();
  let grown = TOO_MUCH;
  const engine: Engine = {
    ...layered,
    async create(spec, signal) {
      const container = await layered.create(spec, signal);
      const resume = container.resume.bind(container);
      return Object.assign(container, {
        disk: {
          readGrowth() {
            if (!writers.has(spec.id)) return { usedBytes: 0, hostBytes: 0 };
            grown += MEBIBYTE;
            return { usedBytes: grown, hostBytes: 0 };
          },
          sharesBlocks: () => false,
          limitGrowth: () => true,
          isLimited: () => false,
          returnFreedBlocks: async () => undefined,
        },
        async resume() {
          if (!broken.has(spec.id)) return resume();
          throw new SandboxError("unavailable", "does not resume");
        },
      });
    },
  };
  return { engine, writers, broken };
}

test(
  "a sandbox that cannot be resumed does not hold up others",
  { timeout: LIMIT_MS },
  async () => {
    const disks = createDiskEngine();
    await using service = await startTestService({ engine: disks.engine });
    const stateOf = (id: string) => service.embedded.sandboxes.get(id).state;
    const ids: string[] = [];
    for (let count = 0; count < 2; count += 1) ids.push((await service.create()).sandboxID);
    for (const id of ids) {
      disks.writers.add(id);
      await expect.poll(() => stateOf(id), WAIT).toBe("paused");
    }
    const [first, second] = ids;
    assert(first !== undefined && second !== undefined);
    disks.broken.add(first);
    disks.writers.clear();
    await expect.poll(() => stateOf(second), WAIT).toBe("running");
    expect(stateOf(first)).toBe("paused");
    disks.broken.clear();
    await expect.poll(() => stateOf(first), WAIT).toBe("running");
  },
);
