/** What is different for who is root only in a namespace of his own. */

import { execFile } from "node:child_process";
import { link, lstat, mkdir, symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { privilegeOf } from "../../../src/common/privilege.ts";
import { readMaxProcesses } from "../../../src/engine/host/open-files.ts";
import { findFree, findRange } from "../../../src/engine/host/user-namespace.ts";
import { createBundle, createProcess } from "../../../src/engine/oci/bundle.ts";
import { stageOf, stageSteps } from "../../../src/engine/storage/rootfs.ts";
import { shiftIds } from "../../../src/engine/templates/base.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

describe("the rights of root", () => {
  test.for([
    { map: "         0          0 4294967295\n", is: "machine" },
    { map: "0 1001 1\n1 100000 65536\n", is: "namespace" },
    { map: "0 1001 1\n", is: "none" },
    // Made by root for itself, as by PrivateUsers of systemd.
    { map: "0 0 1\n", is: "none" },
    { map: "0 0 65536\n", is: "none" },
    { map: "0 100000 65536\n", is: "none" },
  ])("with the map $map are $is", ({ map, is }) => {
    expect(privilegeOf(map)).toBe(is);
  });
});

const SOURCES = resolve(import.meta.dirname, "../../../src");
const REPORT = `
  const { defaultHome } = await import(${JSON.stringify(join(SOURCES, "common/privilege.ts"))});
  const entry = await import(${JSON.stringify(join(SOURCES, "engine/host/user-namespace.ts"))});
  const [, HOME, XDG_DATA_HOME] = process.argv;
  const home = defaultHome({ HOME, XDG_DATA_HOME });
  const fault = await entry.enterOwnNamespace(home, "/nonexistent");
  console.log(JSON.stringify({ home, fault }));
`;

const ENTER = `
  const entry = await import(${JSON.stringify(join(SOURCES, "engine/host/user-namespace.ts"))});
  const [, folder] = process.argv;
  console.log(await entry.enterOwnNamespace(folder, folder));
`;

test.for([
  { named: "", data: "", home: "/.local/share/sandbox-mcp" },
  { named: "given", data: "", home: "/.local/share/sandbox-mcp" },
  { named: "/given", data: "", home: "/given/.local/share/sandbox-mcp" },
  { named: "/given", data: "/data", home: "/data/sandbox-mcp" },
  // To be ignored, as the specification of the variable says.
  { named: "/given", data: "data", home: "/given/.local/share/sandbox-mcp" },
])(
  "an id without an account, HOME=$named, XDG_DATA_HOME=$data is told its lack",
  async (wanted) => {
    const { named, data } = wanted;
    const words = ["-U", "--map-user=4711", process.execPath, "-e", REPORT, "--", named, data];
    const { stdout } = await promisify(execFile)("unshare", words);
    expect(JSON.parse(stdout)).toEqual({
      home: wanted.home,
      fault: expect.stringMatching(/^no .*(?:: sudo useradd --uid 4711 user4711|uidmap.*)$/),
    });
  },
);

describe("the subordinate ids of a user", () => {
  const text = "other:100000:65536\nann:165536:1000\n1001:200000:65536\nann:300000:70000\n";
  test("are the first range that is large enough, by name or number", () => {
    expect(findRange(text, ["ann", "1002"])).toBe(300_000);
    expect(findRange(text, ["bob", "1001"])).toBe(200_000);
    expect(findRange(text, ["bob", "1002"])).toBeUndefined();
    expect(findRange("", ["ann"])).toBeUndefined();
  });

  test.for([
    { taken: "", first: 100_000 },
    { taken: "ann:100000:65536\n", first: 165_536 },
    { taken: "bob:231072:65536\nann:100000:65536\nann:100000:65536\n", first: 165_536 },
    { taken: "bob:200000:65536\nann:100000:65536\n", first: 265_536 },
    { taken: "# a comment\nann:x:y\n", first: 100_000 },
  ])("a new range beside $taken begins at $first", ({ taken, first }) => {
    expect(findFree(taken)).toBe(first);
  });

  test("are not needed with no new privileges where a namespace can be joined", async () => {
    await using folder = await makeTempFolder();
    const ids = join(folder.path, "ids");
    await writeFile(ids, "nobody:100000:65536\n");
    await writeFile(join(folder.path, "user-namespace.pl"), 'print "joins";');
    const bind = 'for ids in subuid subgid; do mount --bind "$1" "/etc/$ids"; done && shift';
    const script = `${bind} && exec setpriv --no-new-privs unshare -U --map-user=65534 "$@"`;
    const node = [process.execPath, "-e", ENTER, "--", folder.path];
    const words = ["-Um", "--map-root-user", "sh", "-c", script, "sh", ids, ...node];
    expect((await promisify(execFile)("unshare", words)).stdout).toBe("joins");
  });
});

test("layers are not mapped, and an overlay keeps its marks where everybody may", () => {
  const steps = stageSteps({
    stage: stageOf("/home/of/a/container"),
    isMapped: false,
    layers: [{ root: "/a" }],
    binds: [{ source: "/volumes/a", path: "/data" }],
    idBase: 1,
    disk: "/c/disk",
    daemon: "/d",
  });
  const names = steps.map(([name]) => name);
  expect(names).not.toContain("ids");
  expect(names).not.toContain("idmap");
  expect(names).not.toContain("devices");
  expect(steps.at(-2)?.[3]).toBe("lowerdir=r0,upperdir=disk/root,workdir=disk/root-work,userxattr");
  expect(steps.at(-1)).toEqual(["volume", "/volumes/a", "rootfs", "/data", "1", "plain"]);
});

test("a sandbox gets no more processes than its user has, which nobody but root may raise", () => {
  const limits = { memoryMb: 512, cpus: 1, diskMb: 2, pids: 200 };
  const limitOf = (maxProcesses?: number) =>
    createProcess({ id: "abc", limits, cgroupPath: undefined, maxProcesses }).rlimits?.[0];
  expect(limitOf(60)).toEqual({ type: "RLIMIT_NPROC", hard: 60, soft: 60 });
  expect(limitOf(4_000)).toEqual({ type: "RLIMIT_NPROC", hard: 200, soft: 200 });
  expect(limitOf()).toEqual({ type: "RLIMIT_NPROC", hard: 200, soft: 200 });
  const row = "Max processes             7900       ";
  expect(readMaxProcesses(`${row}60     processes \n`)).toBe(60);
  expect(readMaxProcesses(`${row}unlimited     processes \n`)).toBeUndefined();
});

test("without cgroups single processes and files are limited", () => {
  const bundle = createBundle({
    id: "abc",
    hostname: "sandbox",
    limits: { memoryMb: 512, cpus: 1, diskMb: 2, pids: 200 },
    idBase: 1,
    rootPath: "/stage/rootfs",
    usersPath: undefined,
    daemonPath: "/stage/daemon",
    cgroupPath: undefined,
    host: { architecture: "x64", hasSwapLimit: false },
  });
  expect(bundle).toMatchObject({
    process: {
      rlimits: [
        { type: "RLIMIT_NPROC", hard: 200, soft: 200 },
        { type: "RLIMIT_FSIZE", hard: 2 * 1024 * 1024, soft: 2 * 1024 * 1024 },
      ],
    },
  });
  expect(bundle).not.toHaveProperty("linux.resources");
  expect(bundle).not.toHaveProperty("linux.cgroupsPath");
});

test.runIf(process.getuid?.() === 0)(
  "owners of a tree are moved once each, and set-id bits stay",
  async () => {
    await using folder = await makeTempFolder();
    const root = join(folder.path, "tree");
    await mkdir(join(root, "bin"), { recursive: true });
    await writeFile(join(root, "bin/su"), "", { mode: 0o4755 });
    await link(join(root, "bin/su"), join(root, "bin/su-too"));
    await symlink("/etc/passwd", join(root, "link"));
    const outside = await lstat("/etc/passwd");
    await shiftIds(root, 1);
    for (const name of ["", "bin", "bin/su", "bin/su-too", "link"]) {
      expect(await lstat(join(root, name))).toMatchObject({ uid: 1, gid: 1 });
    }
    expect((await lstat(join(root, "bin/su"))).mode & 0o7777).toBe(0o4755);
    expect((await lstat("/etc/passwd")).uid).toBe(outside.uid);
  },
);
