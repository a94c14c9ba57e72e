/** Takes away what the tests of one run left: what carries the mark of the run's folder, and no more. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { errorText } from "../../../src/common/errors.ts";
import { removeTree } from "../../../src/common/remove-tree.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { openCgroup, readCgroupHost } from "../../../src/engine/oci/cgroups.ts";
import { removeContainer } from "../../../src/engine/oci/remove-container.ts";
import { findMarked, type Marked } from "../census.ts";
import { processesOf, rangeOf } from "../ordinary-user.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";

const run = promisify(execFile);
const KILL_LIMIT_MS = 5_000;
const KILL_POLL_MS = 20;
/** Commands of containers are long. */
const MAX_TOLD = 120;

/** Removes them and the folder; tells what there was, and what could not be removed. */
export async function removeRun(folder: string): Promise<readonly string[]> {
  const told: string[] = [];
  const attempt = async (thing: string, work: () => Promise<unknown>): Promise<void> => {
    const what = thing.split("\n", 1).join("").slice(0, MAX_TOLD);
    try {
      await work();
      told.push(what);
    } catch (error) {
      told.push(`${what}: ${errorText(error)}`);
    }
  };
  const accounts = await listAccounts(folder);
  for (const { name, uid } of accounts) {
    const processes = await processesOf(uid, await rangeOf(name));
    for (const line of processes) await attempt(line, async () => kill(line));
  }
  const first = await findMarked(folder);
  for (const line of first.processes) await attempt(line, async () => kill(line));
  for (const { id, directory } of first.containers) {
    await attempt(directory, async () => {
      const cgroup = openCgroup(await readCgroupHost(), id, directory);
      await removeContainer(directory, cgroup, createRouters(PERL_DIRECTORY));
    });
  }
  const { mounts, loopDevices } = await findIdle(folder);
  for (const path of mounts.toReversed()) await attempt(path, () => run("umount", [path]));
  for (const path of loopDevices) {
    await attempt(path, async () => {
      const { stdout } = await run("losetup", ["--noheadings", "--output", "NAME", "-j", path]);
      for (const device of stdout.split("\n").filter(Boolean)) await run("losetup", ["-d", device]);
    });
  }
  for (const { name } of accounts) await attempt(name, () => run("userdel", [name]));
  await removeTree(folder).catch((error: unknown) => told.push(errorText(error)));
  return told;
}

/** What is left once the processes that were killed are gone. */
async function findIdle(folder: string): Promise<Marked> {
  const endMs = Date.now() + KILL_LIMIT_MS;
  for (;;) {
    const left = await findMarked(folder);
    if (left.processes.length === 0 || Date.now() > endMs) return left;
    await delay(KILL_POLL_MS);
  }
}

/** A line begins with the number of its process. */
function kill(line: string): void {
  process.kill(Number.parseInt(line, 10), "SIGKILL");
}

/** Accounts whose home is the folder or in it. */
async function listAccounts(folder: string): Promise<{ name: string; uid: number }[]> {
  const lines = (await readFile("/etc/passwd", "utf8")).split("\n").map((line) => line.split(":"));
  return lines
    .filter(([, , , , , home]) => `${home}/`.startsWith(`${folder}/`))
    .map(([name = "", , uid]) => ({ name, uid: Number(uid) }));
}
