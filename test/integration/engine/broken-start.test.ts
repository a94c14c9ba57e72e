/** A start that was broken off while its runtime, which left its process group, goes on by itself. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Routers } from "../../../src/engine/network/router.ts";
import { openCgroup, readCgroupHost } from "../../../src/engine/oci/cgroups.ts";
import {
  RECORD_NAME,
  withUnsyncedDisk,
  writeRecord,
} from "../../../src/engine/oci/container-record.ts";
import { createRemoval, removeContainer } from "../../../src/engine/oci/remove-container.ts";
import { endRuntimeProcesses, findProcesses } from "../../../src/engine/oci/runtime-processes.ts";
import { createRandom } from "../../support/random.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ROUNDS = 30;
const SEED = Number(process.env["BROKEN_START_SEED"] ?? Date.now() % 1_000_000_000);
/** As crun does: in a session of its own it forks and ends, a few times, and its child goes on. */
const LEAVES = `
  my ( $hops, $ms ) = splice @ARGV, 0, 2;
  open my $null, ">", "/dev/null";
  open STDOUT, ">&", $null;
  POSIX::setsid();
  for ( 1 .. $hops ) { exit if fork; select undef, undef, undef, $ms / 1000 }
  sleep 60;
`;
/** Where no cgroup holds what was begun. */
const HOST = { unified: undefined, legacy: [], hasSwapLimit: false };
const ID = "i0123456789";
const RECORD = {
  id: ID,
  // No process has this number.
  pid: 2 ** 22 + 1,
  startTicks: "1",
  idBase: 1,
  level: "container",
  daemon: "",
  isHalted: false,
} as const;
const NO_ROUTERS: Routers = {
  outlivesProcess: false,
  hasLost: async () => true,
  setEgress: async () => undefined,
  disconnect: async () => undefined,
};

async function startLeaving(directory: string, hops: number, ms: number): Promise<void> {
  const words = ["run", "--detach", "--bundle", directory, ID];
  const perl = ["-MPOSIX", "-e", LEAVES, String(hops), String(ms), ...words];
  const child = spawn("perl", perl, { stdio: "ignore", detached: true });
  if (hops > 0) await once(child, "exit");
  else await once(child, "spawn");
}

function listOf(directory: string): number[] {
  return findProcesses((words) => words.includes(`\0--bundle\0${directory}\0`));
}

test(`whatever a broken start left is ended, and no other start, seed ${SEED}`, async () => {
  const random = createRandom(SEED);
  await using folder = await makeTempFolder();
  await using other = await makeTempFolder();
  await startLeaving(other.path, 0, 0);
  for (let round = 0; round < ROUNDS; round += 1) {
    await startLeaving(folder.path, 1 + random.below(3), random.below(10));
    await endRuntimeProcesses(folder.path);
    expect(listOf(folder.path)).toEqual([]);
  }
  expect(listOf(other.path)).toHaveLength(1);
  await endRuntimeProcesses(other.path);
  expect(listOf(other.path)).toEqual([]);
});

test("the removal of a container without a record ends what starts it, that of another does not", async () => {
  await using folder = await makeTempFolder();
  const remove = async () =>
    removeContainer(folder.path, openCgroup(HOST, ID, folder.path), NO_ROUTERS);
  await startLeaving(folder.path, 0, 0);
  await writeFile(join(folder.path, RECORD_NAME), JSON.stringify(RECORD));
  await remove();
  expect(listOf(folder.path)).toHaveLength(1);
  await mkdir(folder.path);
  await remove();
  expect(listOf(folder.path)).toEqual([]);
});

test("a program of another container that imitates a start does not hold up a removal", async () => {
  await using folder = await makeTempFolder();
  const host = await readCgroupHost();
  const other = openCgroup(host, "i9876543210", folder.path);
  await other.make({ memoryMb: 64, cpus: 1, diskMb: 1, pids: 10 });
  try {
    await startLeaving(folder.path, 0, 0);
    const [pid = 0] = listOf(folder.path);
    const trees = [...host.legacy.map(({ path }) => path), ...(host.unified ? [host.unified] : [])];
    for (const tree of trees) {
      // A tree of processors takes none before it has some.
      const file = join(tree, other.path, "cgroup.procs");
      await writeFile(file, String(pid)).catch(() => undefined);
    }
    await endRuntimeProcesses(folder.path, `/sandbox-mcp/${ID}`);
    expect(listOf(folder.path)).toEqual([pid]);
    await endRuntimeProcesses(folder.path, other.path);
    expect(listOf(folder.path)).toEqual([]);
  } finally {
    await other.kill();
    await other.remove();
  }
});

test("two removals of one container at once are one", async () => {
  await using folder = await makeTempFolder();
  const running: string[] = [];
  const remove = createRemoval(NO_ROUTERS, async (id, directory) => {
    running.push(id);
    return openCgroup(HOST, id, directory);
  });
  const [one, other] = [join(folder.path, ID), join(folder.path, "i1")];
  for (const directory of [one, other]) await mkdir(directory);
  await Promise.all([remove(ID, one), remove(ID, one), remove("i1", other)]);
  expect(running).toEqual([ID, "i1"]);
  await remove(ID, one);
  expect(running).toHaveLength(3);
});

test("the removal of a halted container ends what boots it", async () => {
  await using folder = await makeTempFolder();
  await startLeaving(folder.path, 0, 0);
  await writeRecord(folder.path, withUnsyncedDisk(RECORD));
  await removeContainer(folder.path, openCgroup(HOST, ID, folder.path), NO_ROUTERS);
  expect(listOf(folder.path)).toEqual([]);
});
