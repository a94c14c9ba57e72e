/**
 * Snapshots and forks on a home whose file system shares blocks: the service is killed at their
 * steps, and what was acknowledged is there, also after the sandboxes it came from are gone.
 */

import { statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openCloningHome } from "../../support/faults/cloning-disk.ts";
import { CLONES, KEPT } from "../../support/faults/fault-cases.ts";
import { listAll, make } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { NO_POOL, openFaultStage, type FaultStage } from "../../support/faults/fault-stage.ts";
import { killAt } from "../../support/faults/kill-case.ts";
import { isGvisor } from "../../support/level.ts";

const { isWhole, random } = faultRun();
const SETUP_LIMIT_MS = 120_000;
/** In an ordinary run. */
const SOME = 3;

let stage: FaultStage;

beforeAll(async () => {
  stage = await openFaultStage(NO_POOL, openCloningHome);
}, SETUP_LIMIT_MS);

afterEach(() => stage.clear());

afterAll(() => stage[Symbol.asyncDispose]());

const every = CLONES.flatMap((operation) => operation.steps.map((step) => ({ operation, step })));
const cases = isWhole ? every : Array.from({ length: SOME }, () => random.pick(every));

test.for(cases.map((one) => ({ ...one, title: `${one.operation.name} at ${one.step}` })))(
  "R2 killed during $title",
  async (one) => {
    expect(await killAt(stage, one)).toBeGreaterThan(0);
  },
);

const failures = ["clone.frozen", "clone.cloned", "layer.synced", "layer.renamed"] as const;

test.for(isWhole ? failures : [random.pick(failures)])(
  "a snapshot that fails at %s leaves nothing, and the sandbox runs",
  async (step) => {
    const { home } = stage;
    const id = await make(home);
    await home.plan({ step, action: "fail" });
    const answer = await home.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
    // A copy with memory that fails is tried again without.
    expect(answer?.status).toBe(isGvisor ? 201 : 500);
    expect(await home.takeHit()).toBe(true);
    await stage.expectTruth();
    expect((await home.enter(id, "/health"))?.status).toBe(204);
  },
);

test("snapshots of snapshots add no layer, and each is whole when the others are gone", async () => {
  const { home } = stage;
  const layers = async () => (await readdir(join(home.path, "layers"))).length;
  const before = await layers();
  let template = "base";
  for (const name of ["old", "shot"]) {
    const id = await make(home, { templateID: template });
    await home.enter(id, `/files?path=/home/user/${name}`, name);
    if (name === "old") await home.enter(id, KEPT.path, KEPT.text);
    expect((await home.call("POST", `/sandboxes/${id}/snapshots`, { name }))?.status).toBe(201);
    await home.call("DELETE", `/sandboxes/${id}`);
    if (template !== "base") await home.call("DELETE", `/templates/${template}`);
    template = name;
  }
  expect(await layers()).toBe(before);
  const id = await make(home, { templateID: "shot" });
  for (const [path, body] of [
    ["/files?path=/home/user/old", "old"],
    ["/files?path=/home/user/shot", "shot"],
    [KEPT.path, KEPT.text],
  ] as const) {
    expect(await home.enter(id, path)).toMatchObject({ status: 200, body });
  }
  const forks = await home.call("POST", `/sandboxes/${id}/fork`, { count: 2, timeout: 3600 });
  expect(forks?.status).toBe(201);
  await home.call("DELETE", `/sandboxes/${id}`);
  const fresh = (await listAll(home)).slice(-2);
  expect(fresh.length).toBe(2);
  await stage.expectTruth();
  const disk = join(home.path, "instances/serve/s", fresh[0]?.sandboxID ?? "", "disk.img");
  expect(statSync(disk).size).toBeGreaterThan(0);
});
