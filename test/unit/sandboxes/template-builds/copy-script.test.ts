/** The program of COPY steps, run on this machine: which sources it takes, and which lead out. */

import { execFile } from "node:child_process";
import { chmod, lstat, mkdir, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { COPY_SCRIPT, WORKDIR_SCRIPT } from "../../../../src/sandboxes/template-builds/scripts.ts";
import { tar, type TarItem } from "../../../support/images/tar-writer.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";
import { findTestTool } from "../../../support/test-tools.ts";

const run = promisify(execFile);
const file = (path: string): TarItem => ({ path, data: path });
const link = (path: string, target: string): TarItem => ({ path, type: "2", link: target });
const ARCHIVE = [
  file("a"),
  file(".hidden"),
  file("d/b"),
  file("d/.wh.b"),
  link("etc", "/etc"),
  link("up", ".."),
  link("in", "d"),
];

/** What is in the target then, or what the program says. */
async function copy(source: string): Promise<readonly string[] | string> {
  await using folder = await makeTempFolder();
  const archive = join(folder.path, "archive.tar");
  const target = join(folder.path, "target");
  await writeFile(archive, tar(...ARCHIVE));
  await mkdir(target);
  const owner = `${process.getuid?.()}:${process.getgid?.()}`;
  try {
    await run("bash", ["-c", COPY_SCRIPT, "copy", archive, source, `${target}/`, owner, ""]);
  } catch (error) {
    return String(Object(error).stderr).trim();
  }
  return (await readdir(target)).toSorted();
}

const REFUSED = "the source leads out of the archive";

test.for([
  ["a", ["a"]],
  ["d", [".wh.b", "b"]],
  ["d/", [".wh.b", "b"]],
  ["in/", [".wh.b", "b"]],
  ["etc", ["etc"]],
  [".", [".hidden", "a", "d", "etc", "in", "up"]],
  [".*", [".hidden"]],
  ["@(a|d)", [".wh.b", "a", "b"]],
  ["d/{b,.wh.b}", [".wh.b", "b"]],
  ["{a,none}", [".hidden", ".wh.b", "a", "b", "etc", "in", "up"]],
  ["..", REFUSED],
  ["../", REFUSED],
  ["d/../..", REFUSED],
  ["etc/", REFUSED],
  ["etc/.", REFUSED],
  ["etc/passwd", REFUSED],
  ["up/", REFUSED],
  ["up/*", REFUSED],
] as const)("of the source %s", async ([source, expected]) => {
  expect(await copy(source)).toEqual(expected);
});

test.runIf(process.getuid?.() === 0).for(["nobody", "root", "12345", "nobody:root"])(
  "files of the owner %s",
  async (owner) => {
    await using folder = await makeTempFolder();
    const archive = join(folder.path, "archive.tar");
    await writeFile(archive, tar(file("a")));
    const target = join(folder.path, "a");
    await run("bash", ["-c", COPY_SCRIPT, "copy", archive, "a", target, owner, ""]);
    const [user = "", group] = owner.split(":");
    const idOf = async (kind: string, name: string) =>
      /^[0-9]+$/.test(name) ? Number(name) : Number((await run("id", [kind, name])).stdout);
    const { uid, gid } = await stat(target);
    expect({ uid, gid }).toEqual({
      uid: await idOf("-u", user),
      gid: await idOf("-g", group ?? user),
    });
  },
);

test.runIf(process.getuid?.() === 0)(
  "a copy keeps set-user-id, set-group-id and links",
  async () => {
    await using folder = await makeTempFolder();
    const archive = join(folder.path, "archive.tar");
    const target = join(folder.path, "target");
    const modes = { "d/a b\nc": 0o4755, "d/group": 0o2711, "d/both": 0o6750, "d/plain": 0o640 };
    const files = Object.entries(modes).map(([path, mode]) => ({ path, mode }));
    await writeFile(archive, tar(...files, link("d/link", "plain")));
    await run("bash", ["-c", COPY_SCRIPT, "copy", archive, "d", target, "12345", ""]);
    for (const [path, mode] of Object.entries(modes)) {
      const found = await stat(join(target, path.slice(2)));
      expect([path, found.mode & 0o7777, found.uid]).toEqual([path, mode, 12_345]);
    }
    const found = await lstat(join(target, "link"));
    expect([found.isSymbolicLink(), found.uid]).toEqual([true, 12_345]);
  },
);

/** The owners of the folders `old/new/in` below another one, of which `old` is there before. */
async function ownersAfter(make: (folder: string) => Promise<readonly string[]>) {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "old"));
  await run("bash", ["-c", ...(await make(folder.path))]);
  const owners = [];
  for (const path of ["old", "old/new", "old/new/in"]) {
    const { uid, gid } = await stat(join(folder.path, path));
    owners.push(`${uid}:${gid}`);
  }
  return owners;
}

test.runIf(process.getuid?.() === 0).for(["old/new/in/", "old/new/in/f"])(
  "each folder that a copy to %s makes is of its owner",
  async (target) => {
    const owners = await ownersAfter(async (folder) => {
      const archive = join(folder, "archive.tar");
      await writeFile(archive, tar(file("a")));
      return [COPY_SCRIPT, "copy", archive, "a", join(folder, target), "12345:7", ""];
    });
    expect(owners).toEqual(["0:0", "12345:7", "12345:7"]);
  },
);

test.runIf(process.getuid?.() === 0)(
  "each folder that a work directory needs is of the user and its group",
  async () => {
    const { stdout } = await run("id", ["-u", "nobody"]);
    const owners = await ownersAfter(async (folder) => [
      WORKDIR_SCRIPT,
      "workdir",
      join(folder, "old/new/in"),
      "nobody",
    ]);
    const own = `${stdout.trim()}:${(await run("id", ["-g", "nobody"])).stdout.trim()}`;
    expect(owners).toEqual(["0:0", own, own]);
  },
);

const APPLETS =
  "awk basename cat chmod chown cp dirname find grep id mkdir mktemp readlink rm sed stat tar touch";

/** A directory of programs as an image of Alpine has them, and bash. */
async function busyboxPath(folder: string, applets = APPLETS): Promise<string> {
  const path = join(folder, "bin");
  await mkdir(path);
  const busybox = await findTestTool("busybox");
  for (const name of applets.split(" ")) await symlink(busybox, join(path, name));
  await symlink("/bin/bash", join(path, "bash"));
  return path;
}

const directory = (path: string): TarItem => ({ path, type: "5", mode: 0o750 });

test.for([
  ["GNU", "", [0o750, 0o644]],
  ["busybox", "", [0o750, 0o644]],
  // As in docker, a mode is that of folders, too.
  ["GNU", "700", [0o700, 0o700]],
  ["busybox", "700", [0o700, 0o700]],
] as const)("folders that are there keep their metadata: %s, mode %j", async (given) => {
  const [kind, mode, copied] = given;
  await using folder = await makeTempFolder();
  const archive = join(folder.path, "archive.tar");
  const target = join(folder.path, "target");
  await writeFile(
    archive,
    tar(...["d/", "d/old/", "d/old/new/"].map((path) => directory(path)), file("d/old/new/f")),
  );
  await mkdir(join(target, "old"), { recursive: true });
  await chmod(target, 0o1777);
  await chmod(join(target, "old"), 0o711);
  const PATH = kind === "GNU" ? process.env["PATH"] : await busyboxPath(folder.path);
  const owner = `${process.getuid?.()}:${process.getgid?.()}`;
  await run("/bin/bash", ["-c", COPY_SCRIPT, "copy", archive, "d", target, owner, mode], {
    env: { PATH },
  });
  const modes: number[] = [];
  for (const path of ["", "old", "old/new", "old/new/f"]) {
    modes.push((await stat(join(target, path))).mode & 0o7777);
  }
  expect(modes).toEqual([0o1777, 0o711, ...copied]);
});

test("what an image lacks for a copy is named", async () => {
  await using folder = await makeTempFolder();
  const PATH = await busyboxPath(folder.path, "cat chmod chown cp mkdir readlink sed");
  const words = ["-c", COPY_SCRIPT, "copy", "/absent", "d", folder.path, "0:0", ""];
  await expect(run("/bin/bash", words, { env: { PATH } })).rejects.toMatchObject({
    stderr: expect.stringContaining("a copy, in a step before: awk find tar\n"),
  });
});
