/**
 * R16 Writes of the service and its programs in the home meet a full disk, a fault of the disk and a
 * short write. Nothing that was acknowledged is lost, nothing is half there, and the service goes on.
 */

import { afterAll, expect, test } from "vitest";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { LIMIT_MS, openFailer } from "../../support/write-faults/fail-writes.ts";
import { whyNoFaultyHome } from "../../support/write-faults/faulty-home.ts";
import { OPERATIONS } from "../../support/write-faults/operations.ts";

const failer = openFailer(NO_POOL);
afterAll(() => failer[Symbol.asyncDispose](), LIMIT_MS);

for (const operation of OPERATIONS) {
  test.skipIf(whyNoFaultyHome() !== "")(
    `R16 faults of single writes of an operation: ${operation.name} ${whyNoFaultyHome()}`,
    { timeout: LIMIT_MS },
    async (context) => {
      expect(await failer.failAll(operation, context)).toEqual([]);
    },
  );
}
