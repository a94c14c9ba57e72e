/**
 * The service is killed at each step of a move of memory to disk and of the restore from it: started
 * anew, the program goes on, with memory and files of one moment. Without runsc no such step is passed.
 */

import { readdir } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MOVE_STEPS, RESTORE_STEPS } from "../../support/faults/fault-cases.ts";
import { openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import {
  containerOf,
  expectGoesOn,
  readLedger,
  startLedger,
  untilOnDisk,
  type Ledger,
} from "../../support/faults/ledger.ts";
import { rebootHome } from "../../support/faults/sandbox-reboot.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const runtime = gvisorRuntime();
const { isWhole, random } = faultRun();
const LIMIT_MS = 180_000;
/** From here on the memory on disk is the one that counts. */
const COMMITTED = MOVE_STEPS.indexOf("halt.recorded");

const chosen = <T>(steps: readonly T[]) =>
  isWhole ? [...steps] : [...new Set([0, 1, 2].map(() => random.pick(steps)))];

if (runtime === undefined) describeAbsence();
else describeKills(["--runtime", runtime, "--require-isolation", "gvisor", "--pool", "0"]);

function describeAbsence(): void {
  test("gVisor is not installed: no step of a move is passed", async () => {
    await using home = await openFaultHome(["--pool", "0", "--pause-to-disk", "0"]);
    await home.start();
    for (const step of MOVE_STEPS.slice(0, COMMITTED)) {
      await home.plan({ step, action: "kill" });
      const made = await home.call("POST", "/sandboxes", { templateID: "base", timeout: 60 });
      expect(made).toMatchObject({ status: 201 });
      const id = /"sandboxID":"(\w+)"/.exec(JSON.stringify(made?.body))?.[1] ?? "none";
      expect(await home.call("POST", `/sandboxes/${id}/pause`)).toMatchObject({ status: 204 });
      expect(await home.call("DELETE", `/sandboxes/${id}`)).toMatchObject({ status: 204 });
      expect([step, await home.takeHit()]).toEqual([step, false]);
    }
  });
}

function describeKills(flags: readonly string[]): void {
  describe("R2 a service that moves memory to disk", () => {
    let home: FaultHome;
    let id: string;
    let before: Ledger;

    beforeAll(async () => {
      home = await openFaultHome([...flags, "--pause-to-disk", "0"]);
      await home.start();
      const sandbox = await startLedger(home);
      id = sandbox.sandboxId;
      before = await readLedger(sandbox);
    }, LIMIT_MS);
    afterAll(() => home[Symbol.asyncDispose]());

    async function dies(): Promise<boolean> {
      await home.ended();
      return home.takeHit();
    }

    async function goesOn(): Promise<void> {
      before = await readLedger(await expectGoesOn(home, id, before));
      expect(await readdir(containerOf(home, id))).not.toContain("saved");
    }

    test.for(chosen(MOVE_STEPS))("killed at %s of a move", { timeout: LIMIT_MS }, async (step) => {
      await home.plan({ step, action: "kill" });
      await home.call("POST", `/sandboxes/${id}/pause`);
      expect(await dies()).toBe(true);
      if (MOVE_STEPS.indexOf(step) >= COMMITTED) await rebootHome(home);
      await home.start();
      await untilOnDisk(home, id);
      await goesOn();
    });

    test.for(chosen(RESTORE_STEPS))(
      "killed at %s of a restore",
      { timeout: LIMIT_MS },
      async (step) => {
        await home.call("POST", `/sandboxes/${id}/pause`);
        await untilOnDisk(home, id);
        await home.plan({ step, action: "kill" });
        expect(await home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 })).toBe(
          undefined,
        );
        expect(await dies()).toBe(true);
        await home.start();
        await goesOn();
      },
    );
  });
}
