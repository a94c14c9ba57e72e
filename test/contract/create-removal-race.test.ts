/**
 * A create and the removals of what it stands on, in random orders: the sandbox has its template and
 * its volume, or there is none.
 */

import { access } from "node:fs/promises";
import { expect, test } from "vitest";
import { toSandboxError } from "../../src/common/errors.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { PLAIN_CREATE } from "../support/control/plain-create.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { createRandom, printedSeed } from "../support/random.ts";
import { startTestService } from "../support/service.ts";

const ROUNDS = 12;
/** More than a create has before it waits for the disk. */
const MAX_MICROTASKS = 64;
/** Of the event loop: none, fewer than a look at the disk takes, or more. */
const MAX_TURNS = [1, 4, 5_000] as const;
const LIMIT_MS = 60_000;

/** An engine that needs what a container is made of, when it begins and when it is done. */
function createStrictEngine(): Engine {
  const layered = createLayerEngine();
  return {
    ...layered,
    async create(spec, signal) {
      const needed = [
        ...spec.layers.map(({ root }) => root),
        ...(spec.binds ?? []).map(({ source }) => source),
      ];
      await Promise.all(needed.map((path) => access(path)));
      const container = await layered.create(spec, signal);
      await Promise.all(needed.map((path) => access(path)));
      return container;
    },
  };
}

/** The code of the error, or `ok`. */
async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "ok",
    (error: unknown) => toSandboxError(error, "race").code,
  );
}

async function wait({ microtasks, turns }: { microtasks: number; turns: number }): Promise<void> {
  for (let count = 0; count < turns; count += 1) await new Promise((next) => setImmediate(next));
  for (let count = 0; count < microtasks; count += 1) await Promise.resolve();
}

/** Either all stays, or the create misses something that was removed. */
function isConsistent({ created, template, volume }: Readonly<Record<string, string>>): boolean {
  if (created === "ok") return template === "invalid_argument" && volume === "failed_precondition";
  if (created === "not_found") return template === "ok";
  return created === "invalid_argument" && volume === "ok";
}

test("a create has all that it stands on, or there is none", { timeout: LIMIT_MS }, async () => {
  const random = createRandom(printedSeed("creates and removals"));
  await using service = await startTestService({ engine: createStrictEngine() });
  const { sandboxes } = service.embedded;
  const { signal } = new AbortController();
  const source = await sandboxes.create(PLAIN_CREATE, signal);
  const wrong: unknown[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await sandboxes.snapshot(source.sandboxId, "shot");
    const { volumeId } = await sandboxes.createVolume("shared");
    const volumeMounts = [{ name: "shared", path: "/mnt" }];
    const draw = () => ({
      microtasks: random.below(MAX_MICROTASKS),
      turns: random.below(random.pick(MAX_TURNS)),
    });
    const after = { template: draw(), volume: draw() };
    const create = sandboxes.create({ ...PLAIN_CREATE, template: "shot", volumeMounts }, signal);
    const [created, template, volume] = await Promise.all([
      codeOf(create),
      wait(after.template).then(() => codeOf(sandboxes.templates.remove("shot"))),
      wait(after.volume).then(() => codeOf(sandboxes.removeVolume(volumeId))),
    ]);
    const outcome = { created, template, volume };
    if (!isConsistent(outcome)) wrong.push({ round, after, ...outcome });
    if (created === "ok") await sandboxes.kill((await create).sandboxId);
    await codeOf(sandboxes.templates.remove("shot"));
    await codeOf(sandboxes.removeVolume(volumeId));
  }
  expect(wrong).toEqual([]);
});
