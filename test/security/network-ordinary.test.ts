/**
 * What sandboxes of an ordinary user reach, and what they never reach. A whole run makes the attacks
 * of network.test.ts on a service without root, every other run the shortest ones.
 */

import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe } from "vitest";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";
import { describeAttacks, describeAttacksControl, OFF_SECONDS } from "./network/attacks.ts";
import { startOrdinaryGround, type Ground } from "./network/ground.ts";
import { describeNames } from "./network/names.ts";
import { describeOpenConnections } from "./network/open-connections.ts";
import { describeOrdinary, describeShortAttacks } from "./network/ordinary.ts";

describe("without root", () => {
  let ground: Ground;
  let sandbox: Sandbox;

  beforeAll(async () => {
    ground = await startOrdinaryGround();
    sandbox = await ground.create();
  });

  afterAll(async () => {
    await sandbox.kill();
    await ground[Symbol.asyncDispose]();
  });

  const field = () => ({ ...ground, sandbox });

  describeOrdinary(field);
  describeOpenConnections(field, true);
  if (IS_WHOLE_RUN) {
    describeAttacks(field, OFF_SECONDS);
    describeNames(field);
    describeAttacksControl(field);
  } else {
    describeShortAttacks(field);
  }
});
