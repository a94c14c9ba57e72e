/** Which layers are let near a runtime, and how they are stacked. */

import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  checkBinds,
  checkLayers,
  stageOf,
  stageSteps,
} from "../../../src/engine/storage/rootfs.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const FOLDERS = ["dev", "etc", "home", "mnt", "proc", "root", "run", "sys", "tmp", "var"];

const TARGETS = [
  { kind: "absolute", target: "/host" },
  { kind: "relative", target: "../../host" },
  { kind: "chained", target: "hop" },
];

describe("a top-level folder that is a link is refused", () => {
  test.for(FOLDERS.flatMap((name) => TARGETS.map((row) => ({ name, ...row }))))(
    "$name, $kind",
    async ({ name, target }) => {
      await using folder = await makeTempFolder();
      const root = join(folder.path, "root");
      await mkdir(root);
      await symlink("/host", join(root, "hop"));
      await symlink(target, join(root, name));
      await expect(checkLayers([{ root }])).rejects.toMatchObject({
        code: "invalid_argument",
        message: `/${name} of the template is not a real folder`,
      });
    },
  );
});

test("the topmost layer decides", async () => {
  await using folder = await makeTempFolder();
  const [lower, upper] = [join(folder.path, "lower"), join(folder.path, "upper")];
  await mkdir(join(lower, "dev"), { recursive: true });
  await mkdir(upper);
  await expect(checkLayers([{ root: lower }, { root: upper }])).resolves.toBeUndefined();
  await symlink("/host", join(upper, "dev"));
  await expect(checkLayers([{ root: lower }, { root: upper }])).rejects.toThrow("/dev");
  await expect(checkLayers([{ root: upper }, { root: lower }])).resolves.toBeUndefined();
});

test("links of a merged /usr are no fault, a file in a folder's place is", async () => {
  await using folder = await makeTempFolder();
  await symlink("usr/bin", join(folder.path, "bin"));
  await expect(checkLayers([{ root: folder.path }])).resolves.toBeUndefined();
  await writeFile(join(folder.path, "run"), "");
  await expect(checkLayers([{ root: folder.path }])).rejects.toThrow("/run");
});

test("a layer that does not exist is named", async () => {
  await expect(checkLayers([{ root: "/nowhere/at/all" }])).rejects.toMatchObject({
    code: "not_found",
    message: "a layer does not exist",
  });
});

const MAPPED = { stage: stageOf("/home/of/a/container"), isMapped: true } as const;

test("layers are mapped and stacked, the newest on top", () => {
  const steps = stageSteps({
    ...MAPPED,
    layers: [{ root: "/a", usr: "/usr" }, { root: "/b" }],
    idBase: 1_048_576,
    disk: "/c/disk",
    daemon: "/d",
  });
  const options = "redirect_dir=on,metacopy=off,index=off";
  expect(steps).toEqual([
    ["isolate"],
    ["ids", "0", "1048576", "65536"],
    ["mount", "tmpfs", "/run/sandbox-mcp", "mode=0755,size=1m"],
    ["chdir", "/run/sandbox-mcp"],
    ["hold", "/run/sandbox-mcp/users"],
    ["mkdir", "rootfs"],
    ["mkdir", "disk"],
    ["bind", "/c/disk", "disk"],
    ["mkdir", "code"],
    ["clone", "/d", "code"],
    ["mkdir", "none"],
    ["mkdir", "daemon"],
    ["mount", "overlay", "daemon", "lowerdir=code:none"],
    ["mkdir", "r1"],
    ["mkdir", "r0"],
    ["idmap", "/a", "r0"],
    ["idmap", "/b", "r1"],
    [
      "mount",
      "overlay",
      "rootfs",
      `lowerdir=r1:r0,upperdir=disk/root,workdir=disk/root-work,${options}`,
    ],
    ["mkdir", "u0"],
    ["idmap", "/usr", "u0"],
    [
      "mount",
      "overlay",
      "rootfs/usr",
      `lowerdir=u0,upperdir=disk/usr,workdir=disk/usr-work,${options}`,
    ],
    ["devices", "/dev"],
  ]);
});

test("a container without layers stands on an empty folder", () => {
  const steps = stageSteps({
    ...MAPPED,
    layers: [],
    idBase: 1_048_576,
    disk: "/c/disk",
    daemon: "/d",
  });
  expect(steps.slice(-3, -1)).toEqual([
    ["mkdir", "r0"],
    [
      "mount",
      "overlay",
      "rootfs",
      "lowerdir=r0,upperdir=disk/root,workdir=disk/root-work,redirect_dir=on,metacopy=off,index=off",
    ],
  ]);
});

describe("a folder that is bound into the root file system", () => {
  test("may be new or a real folder, at any depth", async () => {
    await using folder = await makeTempFolder();
    await mkdir(join(folder.path, "mnt"));
    const layers = [{ root: folder.path }];
    const binds = ["/mnt/deep/data", "/srv", "/new/data"].map((path) => ({
      source: folder.path,
      path,
    }));
    await expect(checkBinds(binds, layers)).resolves.toBeUndefined();
  });

  test("is refused where a link or a file is on the way", async () => {
    await using folder = await makeTempFolder();
    await symlink("/etc", join(folder.path, "link"));
    await writeFile(join(folder.path, "file"), "");
    const layers = [{ root: folder.path }];
    for (const path of ["/link", "/link/data", "/file/data"]) {
      await expect(checkBinds([{ source: folder.path, path }], layers)).rejects.toMatchObject({
        code: "invalid_argument",
      });
    }
  });

  test.for(["/", "/proc", "/proc/self", "/dev/x", "/run/x", "/usr", "data", "/a/../b", "/a/"])(
    "is refused at %s",
    async (path) => {
      await expect(checkBinds([{ source: "/", path }], [])).rejects.toMatchObject({
        code: "invalid_argument",
        message: expect.stringContaining(`nothing can be mounted at ${path}`),
      });
    },
  );

  test.for([
    ["/a", "/a"],
    ["/a", "/a/b"],
    ["/a/b", "/a"],
  ])("is refused at %s beside %s", async ([first = "", second = ""]) => {
    const binds = [first, second].map((path) => ({ source: "/", path }));
    await expect(checkBinds(binds, [])).rejects.toMatchObject({
      code: "invalid_argument",
      message: `nothing can be mounted at ${second}`,
    });
  });

  test("is shared with the ids of the container, writable", () => {
    const binds = [{ source: "/volumes/a", path: "/data" }];
    const steps = stageSteps({ ...MAPPED, layers: [], binds, idBase: 7, disk: "/d", daemon: "/e" });
    expect(steps.filter(([name]) => name === "volume")).toEqual([
      ["volume", "/volumes/a", "rootfs", "/data", "7", "mapped"],
    ]);
  });
});
