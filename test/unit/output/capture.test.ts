/** What a server knows of a process that it watches: whether it was killed by it. */

import { expect, test } from "vitest";
import type { Sandbox } from "../../../src/client/envd.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { Capture } from "../../../src/output/capture.ts";
import { ProcessOutput } from "../../../src/output/process-output.ts";

function makeCapture(): Capture {
  return new Capture({
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it is asked for here
    sandbox: { id: "i1" } as unknown as Sandbox,
    pid: 2,
    startedAtMs: 0,
    isAttached: false,
    output: new ProcessOutput(undefined),
  });
}

test.for([
  { code: "permission_denied", isSent: false },
  { code: "internal", isSent: false },
  { code: "not_found", isSent: false },
  { code: "unavailable", isSent: true },
  { code: "deadline_exceeded", isSent: true },
  { code: "canceled", isSent: true },
] as const)("SIGKILL that failed with $code: sent $isSent", async ({ code, isSent }) => {
  const capture = makeCapture();
  const refusal = new SandboxError(code, "no");
  await expect(capture.sendKill(async () => Promise.reject(refusal))).rejects.toBe(refusal);
  expect(capture.isKillSent).toBe(isSent);
});

test("SIGKILL counts as sent before its reply, and after a later one that is refused", async () => {
  const capture = makeCapture();
  let during = false;
  await capture.sendKill(async () => void (during = capture.isKillSent));
  const refusal = new SandboxError("not_found", "no");
  await expect(capture.sendKill(async () => Promise.reject(refusal))).rejects.toBe(refusal);
  expect({ during, after: capture.isKillSent }).toEqual({ during: true, after: true });
});
