/** Watches of a real daemon, streamed and polled. */

import { execFile } from "node:child_process";
import { renameSync, unlinkSync } from "node:fs";
import {
  appendFile,
  chmod,
  lstat,
  mkdir,
  rename,
  rm,
  symlink,
  truncate,
  unlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { FilesystemEvent } from "../../../src/gen/filesystem/filesystem_pb.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";
import { Playback } from "../../support/daemon/playback.ts";

/** Kinds of events by their numbers on the wire. */
const KINDS = ["NONE", "CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"];

const run = promisify(execFile);

/** A polled watch that gathers everything it was ever told. */
async function watchByPolling(
  daemon: TestDaemon,
  options: { recursive?: boolean; includeEntry?: boolean } = {},
) {
  const path = join(daemon.folder, "w");
  await mkdir(path, { recursive: true });
  const { watcherId } = await daemon.files.createWatcher({ path, ...options });
  const events: FilesystemEvent[] = [];
  return {
    path,
    watcherId,
    events,
    async names(): Promise<string[]> {
      events.push(...(await daemon.files.getWatcherEvents({ watcherId })).events);
      return events.map((event) => `${KINDS[event.type]} ${event.name}`);
    },
  };
}

test("a file's life: created, written, changed, renamed, removed", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon);
  const at = (name: string) => join(watch.path, name);
  expect(await watch.names()).toEqual([]);
  await writeFile(at("a"), "");
  await expect.poll(async () => watch.names()).toEqual(["CREATE a"]);
  await appendFile(at("a"), "text");
  await expect.poll(async () => watch.names()).toEqual(["CREATE a", "WRITE a"]);
  await chmod(at("a"), 0o600);
  await expect.poll(async () => (await watch.names()).slice(2)).toEqual(["CHMOD a"]);
  await rename(at("a"), at("b"));
  await expect.poll(async () => (await watch.names()).slice(3)).toEqual(["RENAME a", "CREATE b"]);
  await truncate(at("b"));
  await expect.poll(async () => (await watch.names()).slice(5)).toEqual(["WRITE b"]);
  await unlink(at("b"));
  await expect.poll(async () => (await watch.names()).slice(6)).toEqual(["REMOVE b"]);
});

test("an uploaded file is created first, then written", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon);
  await daemon.http(`/files?path=${watch.path}/new`, {
    method: "POST",
    headers: { "content-type": "application/octet-stream" },
    body: "content",
  });
  await expect.poll(async () => watch.names()).toContain("WRITE new");
  expect((await watch.names())[0]).toBe("CREATE new");
});

test("only direct children count without recursion", async () => {
  await using daemon = await startTestDaemon();
  await mkdir(join(daemon.folder, "w", "sub"), { recursive: true });
  const watch = await watchByPolling(daemon);
  await writeFile(join(watch.path, "sub", "hidden"), "");
  await writeFile(join(watch.path, "seen"), "");
  await expect.poll(async () => watch.names()).toEqual(["CREATE seen"]);
});

test("with recursion new folders are entered, and their content is told", async () => {
  await using daemon = await startTestDaemon();
  await mkdir(join(daemon.folder, "w", "old"), { recursive: true });
  const watch = await watchByPolling(daemon, { recursive: true });
  await mkdir(join(watch.path, "new", "deep"), { recursive: true });
  await writeFile(join(watch.path, "new", "deep", "file"), "");
  await expect
    .poll(async () => watch.names())
    .toEqual(["CREATE new", "CREATE new/deep", "CREATE new/deep/file"]);
  await writeFile(join(watch.path, "old", "x"), "");
  await expect.poll(async () => (await watch.names()).slice(3)).toEqual(["CREATE old/x"]);
  await rename(join(watch.path, "new"), join(watch.path, "moved"));
  await expect
    .poll(async () => (await watch.names()).slice(4))
    .toEqual(["RENAME new", "CREATE moved"]);
  // A write that meets the first look into a folder that came is told by both.
  const later = async () => [...new Set((await watch.names()).slice(6))];
  await appendFile(join(watch.path, "moved", "deep", "file"), "x");
  await expect.poll(later).toEqual(["WRITE moved/deep/file"]);
  await rm(join(watch.path, "moved"), { recursive: true });
  await expect
    .poll(later)
    .toEqual([
      "WRITE moved/deep/file",
      "REMOVE moved/deep/file",
      "REMOVE moved/deep",
      "REMOVE moved",
    ]);
});

test("a link to a folder is told, not entered", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon, { recursive: true });
  await mkdir(join(daemon.folder, "outside"));
  await symlink("../outside", join(watch.path, "link"));
  await expect.poll(async () => watch.names()).toEqual(["CREATE link"]);
  await writeFile(join(daemon.folder, "outside", "x"), "");
  await writeFile(join(watch.path, "last"), "");
  await expect.poll(async () => watch.names()).toEqual(["CREATE link", "CREATE last"]);
});

test("ten thousand files at once are all told", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon, { recursive: true });
  const script =
    "for d in $(seq 100); do mkdir -p d$d/e; for f in $(seq 100); do : > d$d/e/f$f; done; done";
  await run("sh", ["-c", script], { cwd: watch.path });
  const created = async () =>
    new Set((await watch.names()).filter((name) => name.startsWith("CREATE"))).size;
  await expect.poll(created, { timeout: 20_000 }).toBe(10_000 + 200);
  expect((await daemon.http("/health")).status).toBe(204);
});

test("entries come with what is still there, never with what has gone", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon, { includeEntry: true });
  await writeFile(join(watch.path, "a"), "");
  await expect.poll(async () => watch.names()).toEqual(["CREATE a"]);
  await unlink(join(watch.path, "a"));
  await expect.poll(async () => watch.names()).toEqual(["CREATE a", "REMOVE a"]);
  expect(watch.events.map((event) => event.entry?.path)).toEqual([
    join(watch.path, "a"),
    undefined,
  ]);
});

test("entries of long paths are told in as many replies as they need", async () => {
  await using daemon = await startTestDaemon();
  // Escaped as JSON, each character is six.
  const path = join(daemon.folder, ...Array.from({ length: 18 }, () => "\u0001".repeat(200)));
  await mkdir(path, { recursive: true });
  const open = async (includeEntry: boolean) => daemon.files.createWatcher({ path, includeEntry });
  const [plain, full] = [await open(false), await open(true)];
  const names = Array.from({ length: 1_200 }, (_, index) => `f${index}`);
  for (const name of names) await writeFile(join(path, name), "");
  const fetch = async (
    { watcherId }: { readonly watcherId: string },
    events: FilesystemEvent[],
  ) => {
    events.push(...(await daemon.files.getWatcherEvents({ watcherId })).events);
    return events.length;
  };
  const [seen, told]: [FilesystemEvent[], FilesystemEvent[]] = [[], []];
  await expect.poll(async () => fetch(plain, seen)).toBe(names.length);
  await expect.poll(async () => fetch(full, told)).toBe(names.length);
  expect(told.map(({ entry }) => entry?.name)).toEqual(names);
});

test.for([
  ["removed", "REMOVE ."],
  ["moved", "RENAME ."],
] as const)("the watched folder itself is %s", async ([how, told]) => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon);
  if (how === "removed") await rm(watch.path, { recursive: true });
  else await rename(watch.path, `${watch.path}2`);
  await expect.poll(async () => watch.names()).toEqual([told]);
});

test("a stream begins with its start and ends when the client leaves", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "s");
  await mkdir(path);
  const controller = new AbortController();
  const told: string[] = [];
  const reading = (async () => {
    for await (const { event } of daemon.files.watchDir({ path }, { signal: controller.signal })) {
      told.push(event.case === "filesystem" ? event.value.name : (event.case ?? "none"));
      if (event.case === "start") await writeFile(join(path, "x"), "");
      if (event.case === "filesystem") controller.abort();
    }
  })();
  expect((await faultOf(reading))[0]).toBe("Canceled");
  expect(told.slice(0, 2)).toEqual(["start", "x"]);
});

test("what cannot be watched", async () => {
  await using daemon = await startTestDaemon();
  const file = join(daemon.folder, "file");
  await writeFile(file, "");
  const gone = join(daemon.folder, "gone");
  const create = async (path: string) => faultOf(daemon.files.createWatcher({ path }));
  expect([await create(gone), await create(file)]).toEqual([
    ["NotFound", `path ${gone} not found: stat ${gone}: no such file or directory`],
    ["InvalidArgument", `path ${file} not a directory: it is a file`],
  ]);
});

test("a removed watcher is unknown, as is one that never was", async () => {
  await using daemon = await startTestDaemon();
  const { watcherId } = await watchByPolling(daemon);
  expect(watcherId).toMatch(/^w[a-z0-9]{20}$/);
  await daemon.files.removeWatcher({ watcherId });
  const unknown = ["NotFound", `watcher with id ${watcherId} not found`];
  expect([
    await faultOf(daemon.files.removeWatcher({ watcherId })),
    await faultOf(daemon.files.getWatcherEvents({ watcherId })),
  ]).toEqual([unknown, unknown]);
});

test("watches have a limit", async () => {
  await using daemon = await startTestDaemon();
  const path = daemon.folder;
  const created = await Promise.all(
    Array.from({ length: 256 }, async () => daemon.files.createWatcher({ path })),
  );
  expect((await faultOf(daemon.files.createWatcher({ path })))[0]).toBe("ResourceExhausted");
  await daemon.files.removeWatcher({ watcherId: created[0]?.watcherId ?? "" });
  expect((await daemon.files.createWatcher({ path })).watcherId).not.toBe("");
});

test("an entry that is moved and removed at once is told as just that, two hundred times", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon);
  const [source, target] = [join(watch.path, "x"), join(watch.path, "z")];
  for (let round = 0; round < 200; round += 1) {
    await writeFile(source, "");
    renameSync(source, target);
    // In every other round the daemon has a moment to find it there.
    if (round % 2 === 1) await lstat(target);
    unlinkSync(target);
  }
  const round = ["CREATE x", "RENAME x", "CREATE z", "REMOVE z"];
  const told = Array.from({ length: 200 }, () => round).flat();
  await expect.poll(async () => watch.names()).toEqual(told);
});

test("a directory that leaves the tree, comes back and is replaced is followed", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon, { recursive: true });
  const outside = join(daemon.folder, "outside");
  const at = (name: string) => join(watch.path, name);
  await mkdir(at("d/e"), { recursive: true });
  await writeFile(at("d/e/f"), "x");
  await expect.poll(async () => watch.names()).toContain("CREATE d/e/f");
  const first = (await watch.names()).length;
  await rename(at("d"), outside);
  await writeFile(join(outside, "e", "unseen"), "");
  await rename(outside, at("d2"));
  await expect
    .poll(async () => (await watch.names()).slice(first).toSorted())
    .toEqual(
      ["RENAME d", "REMOVE d", "CREATE d2", "CREATE d2/e", "CREATE d2/e/f", "WRITE d2/e/f"]
        .concat("CREATE d2/e/unseen")
        .toSorted(),
    );
  const second = (await watch.names()).length;
  await rename(at("d2"), at("d3"));
  await writeFile(at("d3/e/new"), "");
  await expect
    .poll(async () => (await watch.names()).slice(second))
    .toEqual(["RENAME d2", "CREATE d3", "CREATE d3/e/new"]);
});

test("a directory that is removed meanwhile is watched, or why not is told", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "here");
  await mkdir(path);
  const again = 'until (-e "over" or getppid == 1) { rmdir "here"; mkdir "here" }';
  const remover = run("perl", ["-e", again], { cwd: daemon.folder });
  const told = new Set<string>();
  for (let count = 0; count < 200; count += 1) {
    const opened = daemon.files.createWatcher({ path });
    const { watcherId } = await opened.catch(() => ({ watcherId: undefined }));
    if (watcherId !== undefined) await daemon.files.removeWatcher({ watcherId });
    else told.add((await faultOf(opened))[1]);
  }
  await writeFile(join(daemon.folder, "over"), "");
  await remover;
  expect([...told]).not.toContain("internal error");
});

test("entries that change places are both there afterwards", async () => {
  await using daemon = await startTestDaemon();
  const watch = await watchByPolling(daemon, { recursive: true });
  await mkdir(join(watch.path, "a/in-a"), { recursive: true });
  await mkdir(join(watch.path, "b/in-b"), { recursive: true });
  await expect.poll(async () => watch.names()).toContain("CREATE b/in-b");
  await expect.poll(async () => watch.names()).toContain("CREATE a/in-a");
  // renameat2 with RENAME_EXCHANGE, which Node lacks.
  const number = process.arch === "arm64" ? 276 : 316;
  const exchange = `my ($a, $b) = qw(a b); syscall(${number}, -100, $a, -100, $b, 2) == 0 or die $!`;
  await run("perl", ["-e", exchange], { cwd: watch.path });
  const believed = async () => {
    await watch.names();
    const playback = new Playback();
    for (const event of watch.events) playback.add(event);
    return [...playback.names].toSorted();
  };
  await expect.poll(believed).toEqual(["a", "a/in-b", "b", "b/in-a"]);
});
