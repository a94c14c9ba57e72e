/** Files that are no plain files, names at the edge, and what operations make of them. */

import {
  chmod,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rm,
  statfs,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FileType } from "../../../src/gen/filesystem/filesystem_pb.ts";
import { runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";

const METRICS = [
  "ts",
  "cpu_count",
  "cpu_used_pct",
  "mem_total",
  "mem_used",
  "mem_cache",
  "mem_total_mib",
  "mem_used_mib",
  "disk_used",
  "disk_total",
];

async function facts(daemon: TestDaemon, path: string) {
  const { entry } = await daemon.files.stat({ path });
  return [entry?.type, entry?.permissions, entry?.mode.toString(8), entry?.owner];
}

test("special files are entries of no type, with their letters", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, "special", name);
  await mkdir(at(""));
  const server = createServer().listen(at("socket"));
  await runScript(daemon.processes, `mkfifo -m 640 ${at("pipe")}`);
  await chmod(at("socket"), 0o755);
  await mkdir(at("shared"));
  await chmod(at("shared"), 0o1777);
  await writeFile(at("program"), "");
  await chmod(at("program"), 0o4755);
  await runScript(
    daemon.processes,
    `chown 54321:54321 ${at("program")}; chmod 4755 ${at("program")}`,
  );
  expect([
    await facts(daemon, at("socket")),
    await facts(daemon, at("pipe")),
    await facts(daemon, "/dev/zero"),
    await facts(daemon, at("shared")),
    await facts(daemon, at("program")),
  ]).toEqual([
    [FileType.UNSPECIFIED, "Srwxr-xr-x", "755", "root"],
    [FileType.UNSPECIFIED, "prw-r-----", "640", "root"],
    [FileType.UNSPECIFIED, "Dcrw-rw-rw-", "666", "root"],
    [FileType.DIRECTORY, "dtrwxrwxrwx", "777", "root"],
    [FileType.FILE, "urwxr-xr-x", "755", "54321"],
  ]);
  const listed = await daemon.files.listDir({ path: at("") });
  expect(listed.entries.map(({ name, type }) => [name, type])).toEqual([
    ["pipe", FileType.UNSPECIFIED],
    ["program", FileType.FILE],
    ["shared", FileType.DIRECTORY],
    ["socket", FileType.UNSPECIFIED],
  ]);
  await daemon.files.remove({ path: at("") });
  await expect(lstat(at(""))).rejects.toMatchObject({ code: "ENOENT" });
  server.close();
});

test("a path is told as it was asked for; relative ones are cleaned", async () => {
  await using daemon = await startTestDaemon();
  const odd = `${daemon.folder}//./c/../`;
  expect((await daemon.files.stat({ path: odd })).entry?.path).toBe(odd);
  for (const path of ["~", "~/", "", ".", "x/.."]) {
    expect((await daemon.files.stat({ path })).entry?.path).toBe("/root");
  }
});

test("links in the middle of a path stay in it, and its end is described by its target", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await mkdir(at("real/in"), { recursive: true });
  await symlink("real", at("way"));
  await symlink("in", at("real/end"));
  const { entry } = await daemon.files.stat({ path: at("way/end") });
  expect([entry?.path, entry?.symlinkTarget, entry?.type]).toEqual([
    at("way/end"),
    at("real/in"),
    FileType.DIRECTORY,
  ]);
  const { entries } = await daemon.files.listDir({ path: at("way"), depth: 3 });
  expect(entries.map(({ path }) => path)).toEqual([at("way/end"), at("way/in")]);
});

test("making a folder where a link or a file is", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await mkdir(at("real"));
  await symlink("real", at("way"));
  await symlink("nowhere", at("broken"));
  expect([
    await faultOf(daemon.files.makeDir({ path: at("way") })),
    (await faultOf(daemon.files.makeDir({ path: at("broken") })))[0],
    (await faultOf(daemon.files.makeDir({ path: "/proc/new" })))[0],
  ]).toEqual([["AlreadyExists", `directory already exists: ${at("way")}`], "Internal", "Internal"]);
});

test("moves of links, of what links lead to, and across file systems", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await writeFile(at("target"), "x");
  await symlink("target", at("link"));
  const { entry } = await daemon.files.move({ source: at("link"), destination: at("moved") });
  expect([await readlink(at("moved")), entry?.symlinkTarget]).toEqual(["target", at("target")]);
  await daemon.files.move({ source: at("target"), destination: at("away") });
  expect((await daemon.files.stat({ path: at("moved") })).entry?.type).toBe(FileType.UNSPECIFIED);
  await mkdir(at("full"));
  expect(await faultOf(daemon.files.move({ source: at("full"), destination: at("full") }))).toEqual(
    ["Internal", `error renaming: rename ${at("full")} ${at("full")}: file exists`],
  );
  expect(
    await faultOf(daemon.files.move({ source: at("gone"), destination: at("made/deep") })),
  ).toEqual([
    "NotFound",
    `source file not found: rename ${at("gone")} ${at("made/deep")}: no such file or directory`,
  ]);
  expect((await lstat(at("made"))).isDirectory()).toBe(true);
  const memory = await mkdtemp("/dev/shm/envd-edges-");
  try {
    if ((await statfs(memory)).type === (await statfs(daemon.folder)).type) return;
    const move = daemon.files.move({ source: at("away"), destination: `${memory}/x` });
    expect(await faultOf(move)).toEqual([
      "Internal",
      `error renaming: rename ${at("away")} ${memory}/x: invalid cross-device link`,
    ]);
  } finally {
    await rm(memory, { recursive: true });
  }
});

test.for([
  { name: "of a file to its other name", source: "a", target: "b", left: ["b", "folder", "link"] },
  { name: "to itself", source: "a", target: "a", left: ["a", "b", "folder", "link"] },
  {
    name: "to itself by a link",
    source: "a",
    target: "link/../a",
    left: ["a", "b", "folder", "link"],
  },
  { name: "to a name elsewhere", source: "a", target: "link/c", left: ["b", "folder", "link"] },
  {
    name: "to itself in a folder",
    source: "folder/c",
    target: "link/c",
    left: ["a", "b", "folder", "link"],
  },
])("a move $name, of a file with several names", async ({ source, target, left }) => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => `${daemon.folder}/top/${name}`;
  await mkdir(at("folder"), { recursive: true });
  await symlink("folder", at("link"));
  await writeFile(at("a"), "x");
  await link(at("a"), at("b"));
  await link(at("a"), at("folder/c"));
  const { entry } = await daemon.files.move({ source: at(source), destination: at(target) });
  expect(entry?.name).toBe(target.slice(-1));
  expect([(await readdir(at(""))).toSorted(), await readdir(at("folder"))]).toEqual([left, ["c"]]);
});

test("a move to the same name in another case removes nothing, as if its directory ignored case", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => `${daemon.folder}/top/${name}`;
  await mkdir(at(""));
  await writeFile(at("readme"), "x");
  await link(at("readme"), at("README"));
  await daemon.files.move({ source: at("readme"), destination: at("README") });
  expect((await readdir(at(""))).toSorted()).toEqual(["README", "readme"]);
});

test("a removal below a file, and of a name that ends in a dot", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  await writeFile(at("file"), "");
  await mkdir(at("folder"));
  expect([
    await faultOf(daemon.files.remove({ path: at("file/below") })),
    await faultOf(daemon.files.remove({ path: `${at("folder")}/.` })),
  ]).toEqual([
    ["Internal", "error removing file or directory: not a directory"],
    ["Internal", `error removing file or directory: RemoveAll ${at("folder")}/.: invalid argument`],
  ]);
  await daemon.files.remove({ path: `${at("folder")}/` });
  await daemon.files.remove({ path: at("never/was") });
  expect(await faultOf(lstat(at("folder")))).toEqual(expect.anything());
});

test("the figures of GET /metrics", async () => {
  await using daemon = await startTestDaemon();
  await daemon.http("/metrics");
  const reply = await daemon.http("/metrics");
  const body: Record<string, number> = JSON.parse(reply.text);
  expect([reply.status, reply.headers["cache-control"], Object.keys(body)]).toEqual([
    200,
    "no-store",
    METRICS,
  ]);
  const { cpu_used_pct: percent = -1, ...whole } = body;
  expect(Object.values(whole).every((value) => Number.isInteger(value) && value >= 0)).toBe(true);
  expect([percent >= 0 && percent <= 100, Math.round(percent * 100) / 100]).toEqual([
    true,
    percent,
  ]);
  expect(Math.abs((whole["ts"] ?? 0) - Date.now() / 1000)).toBeLessThan(60);
  expect(whole["mem_total_mib"]).toBe(Math.floor((whole["mem_total"] ?? 0) / 1_048_576));
});

test("the first Python clients get entries without what came later", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "old");
  await mkdir(path);
  await writeFile(join(path, "f"), "text");
  const call = async (method: string, body: object, agent: string) => {
    const reply = await daemon.http(`/filesystem.Filesystem/${method}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "connect-protocol-version": "1",
        "user-agent": agent,
      },
      body: JSON.stringify(body),
    });
    return [reply.headers["x-e2b-legacy-sdk"], JSON.parse(reply.text)] as const;
  };
  const short = { name: "f", type: "FILE_TYPE_FILE", path: join(path, "f") };
  const old = "connect-python";
  const watch = { path, includeEntry: true };
  const [, { watcherId }] = await call("CreateWatcher", watch, old);
  await writeFile(join(path, "g"), "text");
  expect([
    await call("Stat", { path: join(path, "f") }, old),
    await call("ListDir", { path: daemon.folder, depth: 2 }, old),
  ]).toEqual([
    ["true", { entry: short }],
    ["true", { entries: expect.arrayContaining([short]) }],
  ]);
  await expect
    .poll(async () => (await call("GetWatcherEvents", { watcherId }, old))[1].events?.[0])
    .toEqual({ name: "g", type: "EVENT_TYPE_CREATE" });
  const [mark, { entry }] = await call("Stat", { path: join(path, "f") }, `${old}/1.0`);
  expect([mark, entry]).toEqual([undefined, expect.objectContaining({ ...short, size: 4 })]);
});
