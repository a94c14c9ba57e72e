/** What routers join: networks outside, and processes that stand for containers. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { claimIds, releaseIds } from "../../../src/engine/host/id-ranges.ts";
import { readStartTicks } from "../../../src/engine/host/process-stat.ts";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { HALTED } from "../engine/halted-record.ts";

export const EVERYTHING = { allow: [], deny: [], domains: [] };

/** A file that is a network namespace, as the one that leads outside. */
export async function makeNetwork(path: string) {
  await writeFile(path, "");
  await runProgram(["unshare", `--net=${path}`, "true"]);
  return { path, [Symbol.asyncDispose]: async () => void (await runProgram(["umount", path])) };
}

/** Its first process has a network namespace of its own. */
export async function startConnectable(directory: string) {
  await mkdir(directory);
  const child = spawn("unshare", ["--net", "sh", "-c", "echo; exec sleep 600"]);
  await once(child.stdout, "data");
  const { pid = 0 } = child;
  const startTicks = readStartTicks(pid) ?? "";
  const record = { ...HALTED, isHalted: false, pid, startTicks, idBase: await claimIds(directory) };
  return {
    directory,
    record,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
      await releaseIds(directory);
    },
  };
}

/** What a shell prints that runs in such a network. */
export async function within(network: string, script: string): Promise<string> {
  return runProgram(["nsenter", `--net=${network}`, "sh", "-c", script]);
}
