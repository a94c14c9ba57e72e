/** The part of the version 2 tree that is an ordinary user's, and the cgroups that are made in it. */

import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createBundle } from "../../../src/engine/oci/bundle.ts";
import { cgroupSteps, openCgroup } from "../../../src/engine/oci/cgroups.ts";
import { ownFolders, tryDelegation } from "../../../src/engine/oci/delegation.ts";
import type { Cgroup } from "../../../src/engine/oci/process-group.ts";
import { openUserCgroup, verifyGroup } from "../../../src/engine/oci/user-cgroup.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ID = "i0";
const LIMITS = { memoryMb: 64, cpus: 2, diskMb: 16, pids: 32 };
const UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
const MEMORY = "32 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
const MANAGER = "/user.slice/user-1000.slice/user@1000.service";

describe("the folders of a process's cgroup", () => {
  test.for([
    {
      name: "an application under systemd",
      mounts: UNIFIED,
      own: `0::${MANAGER}/app.slice/a.scope\n`,
      folders: [
        `/sys/fs/cgroup${MANAGER}/app.slice/a.scope`,
        `/sys/fs/cgroup${MANAGER}/app.slice`,
        `/sys/fs/cgroup${MANAGER}`,
        "/sys/fs/cgroup/user.slice/user-1000.slice",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
      ],
    },
    { name: "the root", mounts: UNIFIED, own: "0::/\n", folders: ["/sys/fs/cgroup"] },
    {
      name: "a container that sees a part",
      mounts: UNIFIED.replace(" / ", " /box/1 "),
      own: "0::/box/1/b\n",
      folders: ["/sys/fs/cgroup/b", "/sys/fs/cgroup"],
    },
    {
      name: "another part than is mounted",
      mounts: UNIFIED.replace(" / ", " /box/1 "),
      own: "0::/box/12\n",
      folders: [],
    },
    { name: "outside of its namespace", mounts: UNIFIED, own: "0::/../b\n", folders: [] },
    {
      name: "a hybrid host",
      mounts: `${UNIFIED}\n${MEMORY}`,
      own: "3:memory:/\n0::/a\n",
      folders: [],
    },
    { name: "version 1 alone", mounts: MEMORY, own: "3:memory:/\n", folders: [] },
    { name: "no cgroups", mounts: "", own: "", folders: [] },
  ])("$name", ({ mounts, own, folders }) => {
    expect(ownFolders(mounts, own)).toEqual(folders);
  });
});

/** A tree as the kernel shows it, of plain files: no limit holds in it. */
async function fillTree(folder: string, processes = ""): Promise<string> {
  await mkdir(folder);
  const controllers = "cpu memory pids\n";
  await writeFile(join(folder, "cgroup.controllers"), controllers);
  await writeFile(join(folder, "cgroup.subtree_control"), controllers);
  await writeFile(join(folder, "cgroup.procs"), processes);
  return folder;
}

test("where limits do not hold nothing is delegated, and nothing is left", async () => {
  await using temp = await makeTempFolder();
  const manager = await fillTree(join(temp.path, "manager"));
  const scope = await fillTree(join(manager, "a.scope"), "1\n");
  expect(tryDelegation([scope, manager])).toBeUndefined();
  expect(await readdir(manager)).not.toContain("sandbox-mcp");
  expect(tryDelegation([])).toBeUndefined();
  expect(tryDelegation([join(temp.path, "none"), manager])).toBeUndefined();
});

interface World extends AsyncDisposable {
  readonly folder: string;
  readonly directory: string;
  readonly cgroup: Cgroup;
}

/** A container's folder, and where its cgroup would be made. */
async function openWorld(): Promise<World> {
  const temp = await makeTempFolder();
  const parent = await fillTree(join(temp.path, "sandbox-mcp"));
  const directory = join(temp.path, "container");
  await mkdir(directory);
  const delegation = { folder: parent, controllers: ["memory", "pids"] as const };
  return {
    folder: join(parent, ID),
    directory,
    cgroup: openUserCgroup(delegation, ID, directory),
    [Symbol.asyncDispose]: async () => temp[Symbol.asyncDispose](),
  };
}

describe("the cgroup of a container", () => {
  test("is limited and named in its folder; what is not delegated is left alone", async () => {
    await using world = await openWorld();
    const { folder, directory, cgroup } = world;
    await mkdir(folder);
    for (const name of ["memory.max", "memory.swap.max", "pids.max", "cpu.max"]) {
      await writeFile(join(folder, name), "");
    }
    expect(cgroup.unified).toBeUndefined();
    await cgroup.make(LIMITS);
    expect(cgroup.unified).toBe(folder);
    expect(await readFile(join(directory, "cgroup"), "utf8")).toBe(`${folder}\n`);
    const read = async (name: string) => readFile(join(folder, name), "utf8");
    expect(await Promise.all(["memory.max", "memory.swap.max"].map(read))).toEqual([
      "67108864",
      "0",
    ]);
    expect(await Promise.all(["pids.max", "cpu.max"].map(read))).toEqual(["32", ""]);
    expect(await cgroup.readMemoryLimit()).toBe(67_108_864);
  });

  test("is refused where a limit cannot be set", async () => {
    await using world = await openWorld();
    const { cgroup } = world;
    await expect(cgroup.make(LIMITS)).rejects.toThrow("memory.max cannot be set");
  });

  test("is that of the file, whatever is delegated to the process that looks", async () => {
    await using world = await openWorld();
    const { folder, directory } = world;
    await mkdir(folder);
    await writeFile(join(folder, "cgroup.events"), "populated 1\nfrozen 1\n");
    const host = { unified: undefined, legacy: [], hasSwapLimit: false };
    const cgroup = openCgroup(host, ID, directory);
    expect([cgroup.unified, await cgroup.isPopulated()]).toEqual([undefined, false]);
    await writeFile(join(directory, "cgroup"), `${folder}\n`);
    expect([cgroup.unified, await cgroup.isPopulated()]).toEqual([folder, true]);
    expect(await cgroup.isFrozen()).toBe(true);
    for (const other of ["", "\n", "sandbox-mcp/i0\n", `${folder}1\n`]) {
      await writeFile(join(directory, "cgroup"), other);
      expect(cgroup.unified).toBeUndefined();
    }
  });

  test("is entered before the trees are hidden from the runtime", async () => {
    await using world = await openWorld();
    const { folder, directory, cgroup } = world;
    const host = { unified: undefined, legacy: [], hasSwapLimit: false };
    const hide = ["mount", "tmpfs", "/sys/fs/cgroup", "mode=0755,size=4k"];
    expect(cgroupSteps(host, cgroup)).toEqual([hide]);
    await writeFile(join(directory, "cgroup"), `${folder}\n`);
    expect(cgroupSteps(host, cgroup)).toEqual([["enter", join(folder, "cgroup.procs")], hide]);
  });

  test("must have the first process", async () => {
    await using world = await openWorld();
    const { folder, directory, cgroup } = world;
    expect(() => verifyGroup(process.pid, cgroup)).not.toThrow();
    await writeFile(join(directory, "cgroup"), `${folder}\n`);
    expect(() => verifyGroup(process.pid, cgroup)).toThrow("container is not in its cgroup");
  });
});

test("processes that a cgroup counts have no limit by user; files have theirs", () => {
  const bundle = createBundle({
    id: ID,
    hostname: "sandbox",
    limits: LIMITS,
    idBase: 1,
    rootPath: "/stage/rootfs",
    usersPath: undefined,
    daemonPath: "/stage/daemon",
    cgroupPath: undefined,
    isCounted: true,
    host: { architecture: "x64", hasSwapLimit: false },
  });
  expect(bundle).toMatchObject({
    process: { rlimits: [{ type: "RLIMIT_FSIZE", hard: 16 * 1024 * 1024 }] },
  });
  expect(bundle).not.toHaveProperty("linux.resources");
});
