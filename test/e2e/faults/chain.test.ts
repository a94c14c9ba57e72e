/**
 * Snapshots of snapshots, one upon the other: a chain that has become too long becomes one layer, and
 * a service that is killed meanwhile has lost nothing.
 */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { KEPT, SQUASH } from "../../support/faults/fault-cases.ts";
import { make } from "../../support/faults/fault-home.ts";
import { openFaultStage } from "../../support/faults/fault-stage.ts";

/** With the layer of the template, as many as a build may have. */
const SNAPSHOTS = 23;
const LIMIT_MS = 10 * 60_000;

test("a chain that is too long becomes one layer", { timeout: LIMIT_MS }, async () => {
  await using stage = await openFaultStage();
  const { home } = stage;
  let template = "base";
  for (let link = 1; link <= SNAPSHOTS; link += 1) {
    const id = await make(home, { templateID: template });
    await home.enter(id, `/files?path=/home/user/link${link}`, `link ${link}`);
    if (link === 1) await home.enter(id, KEPT.path, KEPT.text);
    const name = `link${link}`;
    await home.call("POST", `/sandboxes/${id}/snapshots`, { name });
    await home.call("DELETE", `/sandboxes/${id}`);
    if (link > 1) await home.call("DELETE", `/templates/${template}`);
    template = name;
  }
  // A template that is deleted leaves the layers that others stand on.
  const layers = async () => (await readdir(join(home.path, "layers"))).length;
  const before = await layers();
  const id = await make(home, { templateID: template });
  for (const step of SQUASH.steps) {
    await home.plan({ step, action: "kill" });
    expect(await SQUASH.act(home, id)).toBe(undefined);
    expect(await home.takeHit()).toBe(true);
    await home.ended();
    await home.start();
    await stage.expectTruth();
    const counts = SQUASH.steps.indexOf(step) >= SQUASH.steps.indexOf(SQUASH.countsFrom);
    expect(await layers()).toBe(before + (counts ? 1 : 0));
  }
  for (const step of ["squash.listed", "squash.copied", "squash.done"] as const) {
    await home.plan({ step, action: "fail" });
    expect(await SQUASH.act(home, id)).toBe(500);
    await stage.expectTruth();
    expect(await layers()).toBe(before + 1);
  }
  const child = await make(home, { templateID: "shot" });
  for (let link = 1; link <= SNAPSHOTS; link += 1) {
    const answer = await home.enter(child, `/files?path=/home/user/link${link}`);
    expect(answer).toMatchObject({ status: 200, body: `link ${link}` });
  }
  expect(await home.enter(child, KEPT.path)).toMatchObject({ body: KEPT.text });
  // The next one is a link of a new chain: it adds a layer, and the old ones can go.
  expect(await home.call("POST", `/sandboxes/${child}/snapshots`, { name: "next" })).toMatchObject({
    status: 201,
  });
  for (const sandboxId of [id, child]) await home.call("DELETE", `/sandboxes/${sandboxId}`);
  await home.call("DELETE", `/templates/${template}`);
  await stage.expectTruth();
});
