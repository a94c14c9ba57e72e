/**
 * Every attack from within, on each runtime, as root and as the default user; after each one the
 * canaries are unchanged, the service is healthy and the neighbour answers. Its control shows that
 * the same program succeeds without the defence.
 */

import { afterAll, afterEach, beforeAll, describe } from "vitest";
import { startRange, type AttackRange } from "../../support/hostile/attack-range.ts";
import { attackPlaces } from "../../support/runtimes.ts";
import { describeKernel, describeKernelControl } from "./kernel.ts";
import { describeMounts, describeMountsControl } from "./mounts.ts";
import { describeNames } from "./names.ts";
import { describeProcesses, describeProcessesControl } from "./processes.ts";

describe.each(attackPlaces())("on $name", (place) => {
  let range: AttackRange;

  beforeAll(async () => {
    range = await startRange(place);
  });

  afterEach(async () => range.check());

  afterAll(async () => range[Symbol.asyncDispose]());

  describeMounts(() => range);
  describeProcesses(() => range, place.runtime);
  describeNames(() => range);
  describeKernel(() => range, place.runtime);
});

describe("without the defence", () => {
  describeMountsControl();
  describeProcessesControl();
  describeKernelControl();
});
