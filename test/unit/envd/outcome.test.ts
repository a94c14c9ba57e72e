/** How a process ended, in words. */

import { expect, test } from "vitest";
import { toOutcome } from "../../../src/envd/process/outcome.ts";

test.for([
  [0, null, { exitCode: 0, exited: true, status: "exit status 0" }],
  [3, null, { exitCode: 3, exited: true, status: "exit status 3", error: "exit status 3" }],
  [
    null,
    "SIGKILL",
    { exitCode: -1, exited: false, status: "signal: killed", error: "signal: killed" },
  ],
  [
    null,
    "SIGSEGV",
    {
      exitCode: -1,
      exited: false,
      status: "signal: segmentation fault",
      error: "signal: segmentation fault",
    },
  ],
] as const)("code %s, signal %s", ([code, signal, outcome]) => {
  expect(toOutcome(code, signal)).toEqual(outcome);
});
