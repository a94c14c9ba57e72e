/** Requests that the API server refuses as busy. */

import { expect, test } from "vitest";
import { busyCause, repeatWhileBusy } from "../../../src/cluster/api/repeat-busy.ts";
import { SandboxError } from "../../../src/common/errors.ts";

const TOGETHER = 20;

test("requests that were refused together are not sent together again", async () => {
  const repeatedAtMs = await Promise.all(
    Array.from({ length: TOGETHER }, async () => {
      let count = 0;
      return repeatWhileBusy(async () => {
        count += 1;
        if (count > 1) return performance.now();
        throw new SandboxError("unavailable", "busy", { cause: busyCause("busy", 0) });
      }, undefined);
    }),
  );
  expect(Math.max(...repeatedAtMs) - Math.min(...repeatedAtMs)).toBeGreaterThan(30);
});
