/** Answers of the daemon at the level gvisor, whatever their size: a kernel once ended at 16 KiB. */

import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { openFaultHome } from "../support/faults/fault-home.ts";
import { gvisorRuntime } from "../support/runtimes.ts";

const runtime = gvisorRuntime();
const SIZES = [10_000, 20_000, 100_000, 5_000_000];

test.skipIf(runtime === undefined)(
  "answers and uploads of any size go through, and the sandbox lives on",
  { timeout: 120_000 },
  async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    await using home = await openFaultHome(level);
    await home.start();
    const sandbox = await Sandbox.create("base", home.client());
    for (const size of SIZES) {
      const path = `/home/user/${size}`;
      const text = "0123456789".repeat(size / 10);
      await sandbox.files.write(path, text);
      expect((await sandbox.files.read(path)) === text).toBe(true);
      expect((await sandbox.commands.run(`cat ${path}`)).stdout === text).toBe(true);
    }
  },
);
