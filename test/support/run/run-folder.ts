/**
 * The folder of one run of tests: every home and temporary folder of it lies in there, which is how
 * the end of the run, or the next one after a run that was cut, finds what is left and takes it away.
 */

import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readStartTicks } from "../../../src/engine/host/process-stat.ts";
import { SHARED } from "../engine/shared-daemon.ts";
import { IS_WHOLE_RUN } from "../runtimes.ts";
import { removeRun } from "./remove-run.ts";

/** Homes have short paths: sockets lie in them. */
const PREFIX = "r-";
/** Number, start and process namespace of the process whose run it is. */
const OWNER_NAME = ".owner";

/** Called by the runner; the returned function is called at the end. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  // It makes such a folder by itself, and counts what is left before anything is taken away.
  if (IS_WHOLE_RUN) return undefined;
  const parent = tmpdir();
  await removeCutRuns(parent);
  const folder = await makeRunFolder();
  return async () => tell(folder, await removeRun(folder));
}

/** Makes the folder, in which all workers of this run make theirs: they take over the environment. */
export async function makeRunFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), PREFIX));
  await writeFile(join(folder, OWNER_NAME), await describeProcess(process.pid));
  // Accounts without any rights have homes below it.
  await chmod(folder, 0o711);
  await mkdir(join(folder, SHARED), { mode: 0o711 });
  process.env["TMPDIR"] = folder;
  return folder;
}

/** Only those whose process is known to be dead: it ran in the same process namespace. */
async function removeCutRuns(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const folder = join(parent, name);
    const owner = await readFile(join(folder, OWNER_NAME), "utf8").catch(() => "");
    const [pid, , namespace] = owner.split(" ");
    if (namespace !== (await readNamespace())) continue;
    if ((await describeProcess(Number(pid))) !== owner) tell(folder, await removeRun(folder));
  }
}

async function describeProcess(pid: number): Promise<string> {
  return `${pid} ${readStartTicks(pid)} ${await readNamespace()}`;
}

async function readNamespace(): Promise<string> {
  return readlink("/proc/self/ns/pid");
}

function tell(folder: string, removed: readonly string[]): void {
  if (removed.length === 0) return;
  process.stderr.write(`left over in ${folder}, removed now:\n  ${removed.join("\n  ")}\n`);
}
