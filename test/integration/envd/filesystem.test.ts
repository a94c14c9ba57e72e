/** Files and folders of a real daemon, by RPC. */

import { lstat, mkdir, readFile, symlink, writeFile, chmod, utimes } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FileType, type EntryInfo } from "../../../src/gen/filesystem/filesystem_pb.ts";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";

function plain(entry: EntryInfo | undefined) {
  const { $typeName: _type, modifiedTime: _time, size: _size, ...rest } = entry ?? {};
  return rest;
}

test.for([false, true])(
  "stat of a file, a folder and links (binary: %s)",
  async (useBinaryFormat) => {
    await using daemon = await startTestDaemon({ useBinaryFormat });
    const at = (name: string) => join(daemon.folder, name);
    await writeFile(at("file"), "12345", { mode: 0o640 });
    await chmod(at("file"), 0o640);
    await utimes(at("file"), 1_700_000_000, 1_700_000_000.25);
    await symlink("file", at("link"));
    await symlink("nowhere", at("broken"));
    await symlink("cycle", at("cycle"));
    const { entry } = await daemon.files.stat({ path: at("file") });
    expect(entry).toMatchObject({
      name: "file",
      type: FileType.FILE,
      path: at("file"),
      size: 5n,
      mode: 0o640,
      permissions: "-rw-r-----",
      owner: "root",
      group: "root",
      modifiedTime: { seconds: 1_700_000_000n, nanos: 250_000_000 },
    });
    expect(entry?.symlinkTarget).toBeUndefined();
    expect(plain((await daemon.files.stat({ path: at("link") })).entry)).toEqual({
      name: "link",
      type: FileType.FILE,
      path: at("link"),
      mode: 0o640,
      permissions: "Lrwxrwxrwx",
      owner: "root",
      group: "root",
      symlinkTarget: at("file"),
      isSymlink: true,
      metadata: {},
    });
    for (const name of ["broken", "cycle"]) {
      expect(plain((await daemon.files.stat({ path: at(name) })).entry)).toEqual({
        name,
        type: FileType.UNSPECIFIED,
        path: at(name),
        mode: 0,
        permissions: "Lrwxrwxrwx",
        owner: "root",
        group: "root",
        symlinkTarget: at(name),
        isSymlink: true,
        metadata: {},
      });
    }
    expect([
      await faultOf(daemon.files.stat({ path: at("gone") })),
      await faultOf(daemon.files.stat({ path: at("file/x") })),
      await faultOf(daemon.files.stat({ path: "~other" })),
      await faultOf(daemon.files.stat({ path: "a\0b" })),
    ]).toEqual([
      ["NotFound", `file not found: lstat ${at("gone")}: no such file or directory`],
      ["Internal", `error getting file info: lstat ${at("file/x")}: not a directory`],
      [
        "InvalidArgument",
        "failed to expand path '~other' for user 'root': cannot expand user-specific home dir",
      ],
      ["InvalidArgument", "path contains a NUL byte"],
    ]);
  },
);

test("a listing is depth first, sorted by bytes, and does not enter links", async () => {
  await using daemon = await startTestDaemon();
  const top = join(daemon.folder, "top");
  await mkdir(join(top, "b", "deep", "deeper"), { recursive: true });
  await mkdir(join(top, "Z"));
  for (const name of ["a", "é", "z", "b/one", "b/deep/two"]) await writeFile(join(top, name), "");
  await symlink("b", join(top, "link"));
  await symlink("top", join(daemon.folder, "way"));
  const list = async (path: string, depth: number) =>
    (await daemon.files.listDir({ path, depth })).entries.map((entry) => entry.path);
  const flat = ["Z", "a", "b", "link", "z", "é"];
  expect(await list(top, 0)).toEqual(flat.map((name) => join(top, name)));
  expect(await list(top, 1)).toEqual(flat.map((name) => join(top, name)));
  const deep = ["Z", "a", "b", "b/deep", "b/deep/deeper", "b/deep/two", "b/one", "link", "z", "é"];
  const way = join(daemon.folder, "way");
  expect(await list(way, 3)).toEqual(deep.map((name) => join(way, name)));
  await symlink("loop", join(top, "loop"));
  expect([
    await faultOf(list(join(top, "a"), 1)),
    await faultOf(list(join(top, "none"), 1)),
    await faultOf(list(join(top, "loop"), 1)),
  ]).toEqual([
    ["InvalidArgument", `path is not a directory: ${join(top, "a")}`],
    ["NotFound", `path not found: lstat ${join(top, "none")}: no such file or directory`],
    ["FailedPrecondition", `cyclic symlink or chain >255 links at "${join(top, "loop")}"`],
  ]);
});

test("a folder is made with its parents, once", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "x", "y", "z");
  const { entry } = await daemon.files.makeDir({ path });
  expect([entry?.type, entry?.permissions, entry?.path]).toEqual([
    FileType.DIRECTORY,
    "drwxr-xr-x",
    path,
  ]);
  await writeFile(join(daemon.folder, "file"), "");
  const file = join(daemon.folder, "file");
  expect([
    await faultOf(daemon.files.makeDir({ path })),
    await faultOf(daemon.files.makeDir({ path: file })),
    await faultOf(daemon.files.makeDir({ path: join(file, "below") })),
  ]).toEqual([
    ["AlreadyExists", `directory already exists: ${path}`],
    ["InvalidArgument", `path already exists but it is not a directory: ${file}`],
    ["Internal", `error getting file info: stat ${join(file, "below")}: not a directory`],
  ]);
});

test("a move makes parents, replaces files and never folders", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await writeFile(at("a"), "a");
  await writeFile(at("b"), "b");
  await mkdir(at("empty"));
  const moved = await daemon.files.move({ source: at("a"), destination: at("new/deep/a") });
  expect([moved.entry?.path, await readFile(at("new/deep/a"), "utf8")]).toEqual([
    at("new/deep/a"),
    "a",
  ]);
  await daemon.files.move({ source: at("new/deep/a"), destination: at("b") });
  await daemon.files.move({ source: at("b"), destination: at("b") });
  expect(await readFile(at("b"), "utf8")).toBe("a");
  expect([
    await faultOf(daemon.files.move({ source: at("gone"), destination: at("c") })),
    await faultOf(daemon.files.move({ source: at("b"), destination: at("empty") })),
    await faultOf(daemon.files.move({ source: at("new"), destination: at("new/in") })),
  ]).toEqual([
    [
      "NotFound",
      `source file not found: rename ${at("gone")} ${at("c")}: no such file or directory`,
    ],
    ["Internal", `error renaming: rename ${at("b")} ${at("empty")}: file exists`],
    ["Internal", `error renaming: rename ${at("new")} ${at("new/in")}: invalid argument`],
  ]);
});

test("a removal takes trees and links, not what links lead to", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await mkdir(at("tree/deep"), { recursive: true });
  await writeFile(at("tree/deep/file"), "");
  await writeFile(at("kept"), "");
  await symlink("../kept", at("tree/link"));
  await daemon.files.remove({ path: at("tree") });
  await daemon.files.remove({ path: at("tree") });
  await expect(lstat(at("tree"))).rejects.toMatchObject({ code: "ENOENT" });
  expect((await lstat(at("kept"))).isFile()).toBe(true);
  expect(await faultOf(daemon.files.remove({ path: `${daemon.folder}/.` }))).toEqual([
    "Internal",
    `error removing file or directory: RemoveAll ${daemon.folder}/.: invalid argument`,
  ]);
});

test("a listing has a limit and says so", { timeout: 120_000 }, async () => {
  await using daemon = await startTestDaemon();
  const top = join(daemon.folder, "many");
  await mkdir(top);
  const names = Array.from({ length: 20_001 }, (_, index) => `f${index}`);
  for (let start = 0; start < names.length; start += 500) {
    await Promise.all(names.slice(start, start + 500).map(async (name) => mkdir(join(top, name))));
  }
  expect(await faultOf(daemon.files.listDir({ path: top }))).toEqual([
    "ResourceExhausted",
    "more than 20000 entries",
  ]);
  await daemon.files.remove({ path: join(top, "f0") });
  // Many at once would not find place in the daemon's heap.
  const request = {
    method: "POST",
    headers: { "content-type": "application/json", "connect-protocol-version": "1" },
    body: JSON.stringify({ path: top }),
  };
  const list = async () => daemon.http("/filesystem.Filesystem/ListDir", request);
  const replies = await Promise.all(Array.from({ length: 16 }, list));
  for (const { status, text } of replies) {
    expect([status, text.match(/"path":/g)?.length]).toEqual([200, 20_000]);
  }
});

test("listings of long paths have a limit and say so", { timeout: 120_000 }, async () => {
  await using daemon = await startTestDaemon();
  // Escaped as JSON, each character is six.
  const top = join(daemon.folder, ...Array.from({ length: 18 }, () => "\u0001".repeat(200)));
  await mkdir(top, { recursive: true });
  const names = Array.from({ length: 4_600 }, (_, index) => `f${index}`);
  await Promise.all(names.map(async (name) => writeFile(join(top, name), "")));
  const faults = async () =>
    Promise.all(
      Array.from({ length: 8 }, async () => faultOf(daemon.files.listDir({ path: top }))),
    );
  for (const fault of await faults()) {
    expect(fault).toEqual(["ResourceExhausted", "more than 16777216 characters of paths"]);
  }
  for (const name of names.slice(4_400)) await daemon.files.remove({ path: join(top, name) });
  for (const [code, text] of await faults()) {
    expect([code, text.replace(/size [0-9]+/, "size N")]).toEqual([
      "ResourceExhausted",
      "message size N is larger than configured writeMaxBytes 16777216",
    ]);
  }
});
