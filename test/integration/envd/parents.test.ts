/** `..` after a link is the parent of the link's target, in every operation. */

import {
  chmod,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";

/** `link` leads to `far/deep`: the text of `link/..` names the folder, the kernel means `far`. */
async function addLink(daemon: TestDaemon): Promise<void> {
  await mkdir(join(daemon.folder, "far/deep"), { recursive: true });
  await symlink("far/deep", join(daemon.folder, "link"));
}

const upload = (daemon: TestDaemon, path: string, body: string) =>
  daemon.http(`/files?path=${encodeURIComponent(path)}&username=root`, {
    method: "POST",
    headers: { "content-type": "application/octet-stream" },
    body,
  });

const contentOf = (path: string) => readFile(path, "utf8").catch(() => undefined);

test("uploads, downloads and compositions", async () => {
  await using daemon = await startTestDaemon();
  await addLink(daemon);
  const at = (name: string) => `${daemon.folder}/${name}`;
  await upload(daemon, at("link/../new"), "new");
  await upload(daemon, at("link/../made/below"), "below");
  await symlink("link/../pointed", at("pointer"));
  await upload(daemon, at("pointer"), "pointed");
  await daemon.http("/files/compose", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      username: "root",
      source_paths: [at("link/../new"), at("far/made/below")],
      destination: at("link/../whole"),
    }),
  });
  const read = await daemon.http(
    `/files?username=root&path=${encodeURIComponent(at("link/../whole"))}`,
  );
  expect([read.text, await contentOf(at("far/pointed")), await contentOf(at("pointed"))]).toEqual([
    "newbelow",
    "pointed",
    undefined,
  ]);
});

test("a source that is the destination under another name is refused", async () => {
  await using daemon = await startTestDaemon();
  await addLink(daemon);
  await writeFile(join(daemon.folder, "far/x"), "kept");
  const reply = await daemon.http("/files/compose", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      username: "root",
      source_paths: [`${daemon.folder}/link/../x`],
      destination: `${daemon.folder}/far/x`,
    }),
  });
  expect([reply.status, await contentOf(join(daemon.folder, "far/x"))]).toEqual([400, "kept"]);
});

test("directories, moves, listings, events and removals", async () => {
  await using daemon = await startTestDaemon();
  await addLink(daemon);
  const { files, folder } = daemon;
  const at = (name: string) => `${folder}/${name}`;
  const made = await files.makeDir({ path: at("link/../dir") });
  await writeFile(at("far/dir/file"), "");
  await files.move({ source: at("link/../dir/file"), destination: at("link/../other/file") });
  const listed = await files.listDir({ path: at("link/.."), depth: 2 });
  const watched = { path: at("link/.."), includeEntry: true };
  const { watcherId } = await files.createWatcher(watched);
  await mkdir(at("far/event"));
  await expect
    .poll(async () => (await files.getWatcherEvents({ watcherId })).events[0]?.entry?.path)
    .toBe(at("link/../event"));
  await files.remove({ path: at("link/../other") });
  expect([
    made.entry?.path,
    listed.entries.map(({ path }) => path),
    await contentOf(at("far/other/file")),
  ]).toEqual([
    at("link/../dir"),
    ["deep", "dir", "other", "other/file"].map((name) => at(`link/../${name}`)),
    undefined,
  ]);
});

test("a path relative to the home", async () => {
  await using daemon = await startTestDaemon();
  await addLink(daemon);
  const name = basename(daemon.folder);
  const pointer = join(homedir(), name);
  const lexical = join(homedir(), `${name}-new`);
  await symlink(join(daemon.folder, "link"), pointer);
  try {
    const path = `~/${name}/../${name}-new`;
    await upload(daemon, path, "new");
    const { entry } = await daemon.files.stat({ path });
    expect([entry?.path, await contentOf(join(daemon.folder, `far/${name}-new`))]).toEqual([
      `${pointer}/../${name}-new`,
      "new",
    ]);
    await expect(lstat(lexical)).rejects.toMatchObject({ code: "ENOENT" });
  } finally {
    await rm(pointer);
    await rm(lexical, { force: true });
  }
});

test("an upload whose path has a missing name before .. keeps what it replaces", async () => {
  await using daemon = await startTestDaemon();
  const file = join(daemon.folder, "file");
  const otherName = join(daemon.folder, "other");
  await writeFile(file, "old");
  await chmod(file, 0o600);
  await link(file, otherName);
  const reply = await upload(daemon, `${daemon.folder}/missing/../file`, "new");
  const { mode } = await lstat(file);
  expect([reply.status, mode & 0o777, await contentOf(otherName)]).toEqual([200, 0o600, "new"]);
});

test.for(["new/.", "new/..", "new/"])("an upload to %s makes no file", async (name) => {
  await using daemon = await startTestDaemon();
  const folder = join(daemon.folder, "uploads");
  await mkdir(folder);
  const reply = await upload(daemon, `${folder}/${name}`, "content");
  const entries = await readdir(folder, { withFileTypes: true });
  expect([reply.status >= 400, entries.filter((entry) => entry.isFile())]).toEqual([true, []]);
});

test("a move and a composition go where an upload would, with a missing name before ..", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => `${daemon.folder}/${name}`;
  await writeFile(at("a"), "a");
  const { entry } = await daemon.files.move({
    source: at("a"),
    destination: at("missing/../made/b"),
  });
  expect([entry?.path, entry?.name, await contentOf(at("made/b"))]).toEqual([
    at("missing/../made/b"),
    "b",
    "a",
  ]);
  const composed = await daemon.http("/files/compose", {
    method: "POST",
    body: JSON.stringify({
      username: "root",
      source_paths: [at("made/b")],
      destination: at("missing/../new/c"),
    }),
  });
  expect([composed.status, await contentOf(at("new/c"))]).toEqual([200, "a"]);
});
