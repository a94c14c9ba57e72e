/**
 * R16 Each write of the service and its programs in the home meets a full disk, a fault of the disk and a
 * short write once. Nothing that was acknowledged is lost, nothing is half there, and the service goes on.
 */

import { expect, test } from "vitest";
import { NO_POOL } from "../../support/fault-stage.ts";
import { failAll, LIMIT_MS } from "../../support/write-faults/fail-writes.ts";
import { whyNoFaultyHome } from "../../support/write-faults/faulty-home.ts";
import { OPERATIONS } from "../../support/write-faults/operations.ts";

test.skipIf(whyNoFaultyHome() !== "")(
  `R16 faults of single writes in a home that is in use ${whyNoFaultyHome()}`,
  { timeout: LIMIT_MS },
  async (context) => {
    expect(await failAll(NO_POOL, OPERATIONS, context)).toEqual([]);
  },
);
