/** The disk of the home is full when memory is moved to it, or comes back from it. */

import { readdir } from "node:fs/promises";
import { expect, test } from "vitest";
import { openFaultHome } from "../../support/faults/fault-home.ts";
import {
  containerOf,
  expectGoesOn,
  pauseOf,
  readLedger,
  startLedger,
  untilOnDisk,
} from "../../support/faults/ledger.ts";
import { openSmallDisk, type SmallDisk } from "../../support/faults/small-disk.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const runtime = gvisorRuntime();
const LIMIT_MS = 300_000;
const DISK_FULL = 507;

test.skipIf(runtime === undefined)(
  "a full disk keeps memory in its process, or on the disk, until there is space",
  { timeout: LIMIT_MS },
  async () => {
    let disk: SmallDisk | undefined;
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    const flags = [...level, "--disk-mb", "96", "--pause-to-disk", "0"];
    await using home = await openFaultHome(flags, async () => (disk = await openSmallDisk()));
    if (disk === undefined) throw new Error("no disk");
    await home.start();
    const sandbox = await startLedger(home);
    const { sandboxId } = sandbox;
    const before = await readLedger(sandbox);
    const entries = async () => readdir(containerOf(home, sandboxId));

    // Half way: the image is begun when the last block goes.
    await home.plan({ step: "layer.begun", action: "hold" });
    await sandbox.pause();
    await home.hit();
    await disk.fill(0);
    await home.release();
    await expect.poll(() => home.stderr(), { timeout: LIMIT_MS }).toMatch(/memory stays in the/);
    await home.takeHit();
    await expect.poll(entries).not.toContain("saved");
    const inProcess = { state: "paused", pauseMode: "full", pausedMemory: "process" };
    expect(await pauseOf(home, sandboxId)).toEqual(inProcess);
    // It is tried again, and there is space then.
    await disk.free();
    await untilOnDisk(home, sandboxId);

    await disk.fill(0);
    const connect = `/sandboxes/${sandboxId}/connect`;
    const refused = await home.call("POST", connect, { timeout: 300 });
    expect(refused).toMatchObject({ status: DISK_FULL });
    await untilOnDisk(home, sandboxId);
    await disk.free();
    await (await expectGoesOn(home, sandboxId, before)).kill();
  },
);
