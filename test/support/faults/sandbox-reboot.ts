/** What a restart of the machine does to a home whose service was killed, as far as a test can have it. */

import { execFile } from "node:child_process";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { findMarked } from "../census.ts";
import type { FaultHome } from "./fault-home.ts";

const run = promisify(execFile);
const CONTAINERS = "instances/serve/s";
const POLL_MS = 20;
const MAX_LOOKS = 250;

/** Kills the service, ends every process of the home, takes mounts away and empties runtime state. */
export async function rebootHome(home: FaultHome): Promise<void> {
  await home.stop("SIGKILL");
  await endProcesses(home.path);
  const { mounts } = await findMarked(home.path);
  for (const path of mounts.toReversed()) await run("umount", ["-l", path]);
  const directory = join(home.path, CONTAINERS);
  for (const name of await readdir(directory)) {
    await rm(join(directory, name, "runtime"), { recursive: true, force: true });
  }
}

async function endProcesses(path: string): Promise<void> {
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    const { processes } = await findMarked(path);
    if (processes.length === 0) return;
    for (const line of processes) kill(Number.parseInt(line, 10));
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
  throw new Error("processes of the home do not end");
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}
