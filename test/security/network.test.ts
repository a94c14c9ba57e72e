/**
 * What a sandbox reaches, and what it never reaches, in a lab of namespaces that the test made. Each
 * attack is made once more without the defence, where it succeeds. An ordinary run does so on one
 * runtime.
 */

import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { attackedRuntimes, hasOwnKernel } from "../support/runtimes.ts";
import { describeAttacks, describeAttacksControl, OFF_SECONDS } from "./network/attacks.ts";
import { fetchFrom, OPEN, startGround, type Ground } from "./network/ground.ts";
import { describeNames } from "./network/names.ts";
import { describeOpenConnections } from "./network/open-connections.ts";
import { describeReach } from "./network/reach.ts";

describe.each(attackedRuntimes().map((name, index) => ({ name, index })))("on $name", (place) => {
  let ground: Ground;
  let untouched: readonly string[];
  let sandbox: Sandbox;

  beforeAll(async () => {
    ground = await startGround(place.name);
    untouched = await ground.lab.traces();
    sandbox = await ground.create();
  });

  afterAll(async () => {
    await sandbox.kill();
    await ground[Symbol.asyncDispose]();
  });

  const field = () => ({ ...ground, sandbox });

  describeReach(field);
  describeOpenConnections(field, !hasOwnKernel(place.name));
  // The longest attack once is enough: a packet is counted by the rules, not by the runtime.
  describeAttacks(field, place.index === 0 ? OFF_SECONDS : 0);
  describeNames(field);
  describeAttacksControl(field);

  test("with the last sandbox everything is as it was before the first", async () => {
    expect(await fetchFrom(sandbox, OPEN)).toContain("far");
    expect(await ground.lab.traces()).not.toEqual(untouched);
    await sandbox.kill();
    await expect.poll(async () => ground.lab.traces()).toEqual(untouched);
  });
});
