/** Which limits of the service hold in sandboxes, as `doctor` reports them. */

import { expect, test } from "vitest";
import { checkProcessLimits, limitSteps } from "../../../src/engine/oci/process-limits.ts";

const name = "process limits";
const LIMITS = `Limit                     Soft Limit           Hard Limit           Units
Max cpu time              300                  600                  seconds
Max file size             unlimited            unlimited            bytes
Max stack size            1048576              1048576              bytes
Max locked memory         65536                65536                bytes
Max address space         4096                 unlimited            bytes
`;

test("a service that may not raise them names those that programs notice", () => {
  expect(checkProcessLimits(LIMITS, false)).toEqual({
    name,
    outcome: "warning",
    detail: "in sandboxes too: cpu time at most 600 seconds, stack size at most 1048576 bytes",
    remedy: "start the service without them: ulimit -t unlimited, ulimit -s 8192",
  });
});

test("a service that may raise them, or has none, names nothing", () => {
  const ok = { name, outcome: "ok", detail: "none from this program" };
  expect(checkProcessLimits(LIMITS, true)).toEqual(ok);
  expect(checkProcessLimits(LIMITS.replaceAll(/ (?:600|1048576) /g, " unlimited "), false)).toEqual(
    ok,
  );
});

test("priorities of real time are never given", () => {
  expect(limitSteps()).toEqual(
    expect.arrayContaining([
      ["limit", "13", "0", "0"],
      ["limit", "14", "0", "0"],
    ]),
  );
});
