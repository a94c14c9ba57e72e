/**
 * What the kernel of a sandbox at the level gvisor keeps of connections and programs that have ended:
 * it counts against the sandbox's limit, and too much of it once ended sandboxes that only ran commands.
 */

import { readFileSync } from "node:fs";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { openFaultHome, type FaultHome } from "../support/faults/fault-home.ts";
import { faultRun } from "../support/faults/fault-run.ts";
import { posturesOf } from "../support/hostile/posture.ts";
import { gvisorRuntime } from "../support/runtimes.ts";

const runtime = gvisorRuntime();
const { isWhole } = faultRun();
/** Without a bound the programs take 45 MB, and the connections, in less than a minute, 10 MB. */
const [PROGRAMS, CONNECTIONS] = [400, 300];
const MAX_GROWTH_MB = { programs: 22, connections: 5, commands: 60 };
/** More where the runtime keeps more entries of /proc, which doctor says. */
const UNBOUNDED_MB = 160;
/** In a whole run. */
const COMMANDS = 10_000;
const AT_ONCE = 4;
const LIMIT_MS = isWhole ? 3 * 3_600_000 : 300_000;

/** What its kernel has of its own, in MB: not the memory of programs, nor files. */
async function kernelMb(sandboxId: string): Promise<number> {
  const all = await posturesOf(sandboxId);
  const kernel = all.find(({ command }) => command.startsWith("runsc-sandbox"));
  const status = readFileSync(`/proc/${kernel?.pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

async function startSandbox(home: FaultHome): Promise<Sandbox> {
  await home.start();
  const sandbox = await Sandbox.create("base", { ...home.client(), timeoutMs: LIMIT_MS });
  // What is there once, whatever follows.
  for (let count = 0; count < 20; count += 1) await sandbox.commands.run("cat /proc/self/status");
  return sandbox;
}

test.skipIf(runtime === undefined)(
  "ended programs and connections leave no memory taken",
  { timeout: LIMIT_MS },
  async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    await using home = await openFaultHome(level);
    const sandbox = await startSandbox(home);
    const first = await kernelMb(sandbox.sandboxId);
    const { stdout } = await sandbox.commands.run("grep ' /proc ' /proc/mounts | tail -n 1");
    const moreMb = stdout.includes("dentry_cache_limit=64 ") ? 0 : UNBOUNDED_MB;

    const loop = `for i in $(seq ${PROGRAMS}); do cat /proc/self/status; done >/dev/null`;
    await sandbox.commands.run(loop, { timeoutMs: LIMIT_MS });
    const second = await kernelMb(sandbox.sandboxId);
    expect(second - first).toBeLessThan(MAX_GROWTH_MB.programs + moreMb);

    for (let count = 0; count < CONNECTIONS; count += 1) await sandbox.isRunning();
    const third = await kernelMb(sandbox.sandboxId);
    expect(third - second).toBeLessThan(MAX_GROWTH_MB.connections);
    if (!isWhole) return;

    let left = COMMANDS;
    const run = async () => {
      while (left > 0) {
        left -= 1;
        await sandbox.commands.run("true");
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, run));
    const grownMb = (await kernelMb(sandbox.sandboxId)) - first;
    expect(grownMb).toBeLessThan(MAX_GROWTH_MB.commands + moreMb);
  },
);
