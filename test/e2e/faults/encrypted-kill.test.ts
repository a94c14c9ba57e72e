/**
 * A service that encrypts memory is killed while it is moved to disk and restored: nothing of it is left
 * as it was, and the program goes on.
 */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MOVE_STEPS, SEAL_STEPS } from "../../support/faults/fault-cases.ts";
import { openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { expectGoesOn, readLedger, startLedger, untilOnDisk } from "../../support/faults/ledger.ts";
import { filesWith, imageMounts } from "../../support/faults/memory-images.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const runtime = gvisorRuntime();
const { isWhole, random } = faultRun();
const LIMIT_MS = 180_000;
/** From here on the memory on disk is the one that counts. */
const COMMITTED = MOVE_STEPS.indexOf("halt.recorded");

const chosen = <T>(steps: readonly T[]) => (isWhole ? [...steps] : [random.pick(steps)]);

describe.skipIf(runtime === undefined)("R2 a service that encrypts memory", () => {
  const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
  let home: FaultHome;
  beforeAll(async () => {
    home = await openFaultHome([...level, "--pause-to-disk", "0", "--encrypt-snapshots"]);
    await home.start();
  }, LIMIT_MS);
  afterAll(() => home[Symbol.asyncDispose]());

  test.for(chosen(MOVE_STEPS.slice(0, COMMITTED + 1)))(
    "killed at %s of a move: no plain image is left",
    { timeout: LIMIT_MS },
    async (step) => {
      const sandbox = await startLedger(home);
      const before = await readLedger(sandbox);
      await home.plan({ step, action: "kill" });
      await home.call("POST", `/sandboxes/${sandbox.sandboxId}/pause`);
      await home.ended();
      expect(await home.takeHit()).toBe(true);
      expect(await filesWith(home, before.word)).toEqual([]);
      await expect.poll(() => imageMounts(home)).toBe("0");
      await home.start();
      await untilOnDisk(home, sandbox.sandboxId);
      await (await expectGoesOn(home, sandbox.sandboxId, before)).kill();
    },
  );

  test.for(chosen(SEAL_STEPS))("killed at %s of a restore", { timeout: LIMIT_MS }, async (step) => {
    const sandbox = await startLedger(home);
    const { sandboxId } = sandbox;
    const before = await readLedger(sandbox);
    await sandbox.pause();
    await untilOnDisk(home, sandboxId);
    await home.plan({ step, action: "kill" });
    expect(await home.call("POST", `/sandboxes/${sandboxId}/connect`, { timeout: 300 })).toBe(
      undefined,
    );
    await home.ended();
    expect(await home.takeHit()).toBe(true);
    expect(await filesWith(home, before.word)).toEqual([]);
    await home.start();
    await (await expectGoesOn(home, sandboxId, before)).kill();
  });
});
