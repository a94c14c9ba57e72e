/** Metadata of files: stored with uploads, told with entries, changed by whoever can. */

import { mkdir, readdir, readFile, statfs, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DAEMON_PID, runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";

const RAW = { "content-type": "application/octet-stream" };
const EXT4 = 0xef53;
const SETXATTR: Readonly<Record<string, number>> = { x64: 188, arm64: 5 };

async function upload(daemon: TestDaemon, path: string, metadata: Record<string, string> = {}) {
  const headers = Object.entries(metadata).map(([key, value]) => [`x-metadata-${key}`, value]);
  const reply = await daemon.http(`/files?path=${encodeURIComponent(path)}`, {
    method: "POST",
    headers: { ...RAW, ...Object.fromEntries(headers) },
    body: "content",
  });
  const body: unknown = JSON.parse(reply.text);
  return { status: reply.status, body };
}

async function metadataOf(daemon: TestDaemon, path: string) {
  return (await daemon.files.stat({ path })).entry?.metadata;
}

/** Sets an attribute as any program of the sandbox could; the value is perl's. */
async function setAttribute(
  { processes }: TestDaemon,
  path: string,
  { name, value }: { readonly name: string; readonly value: string },
) {
  const program = `my ($p, $n, $v) = (@ARGV, ${value}); exit(syscall(${SETXATTR[process.arch] ?? 0}, $p, $n, $v, length $v, 0) == 0 ? 0 : 1)`;
  const result = await runScript(processes, `perl -e '${program}' '${path}' '${name}'`);
  expect(result.end.exitCode).toBe(0);
}

test("an upload stores its metadata, the next one replaces the whole set", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "f i l e");
  const record = { path, name: "f i l e", type: "file" };
  expect(await upload(daemon, path, { Author: "a b", "x-1": "~!" })).toEqual({
    status: 200,
    body: [{ ...record, metadata: { author: "a b", "x-1": "~!" } }],
  });
  expect(await metadataOf(daemon, path)).toEqual({ author: "a b", "x-1": "~!" });
  await setAttribute(daemon, path, { name: "user.e2b.other", value: '"by hand"' });
  await setAttribute(daemon, path, { name: "user.mine", value: '"stays"' });
  expect(await metadataOf(daemon, path)).toEqual({ author: "a b", "x-1": "~!", other: "by hand" });
  expect((await upload(daemon, path, { author: "c" })).body).toEqual([
    { ...record, metadata: { author: "c" } },
  ]);
  expect(await metadataOf(daemon, path)).toEqual({ author: "c" });
  expect((await upload(daemon, path)).body).toEqual([record]);
  expect(await metadataOf(daemon, path)).toEqual({});
  expect((await upload(daemon, path, { empty: "" })).body).toEqual([
    { ...record, metadata: { empty: "" } },
  ]);
});

test("every file of a form gets the set, and a repeated header counts once", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  const part = (name: string) =>
    `--b\r\nContent-Disposition: form-data; name="file"; filename="${at(name)}"\r\n\r\nx\r\n`;
  const reply = await daemon.http("/files", {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b", "x-metadata-k": "v" },
    body: `${part("one")}${part("two")}--b--\r\n`,
  });
  expect(JSON.parse(reply.text)).toEqual(
    ["one", "two"].map((name) => ({
      path: at(name),
      name,
      type: "file",
      metadata: { k: "v" },
    })),
  );
});

test("entries carry it: listed, moved, behind a link, watched", async () => {
  await using daemon = await startTestDaemon();
  const top = join(daemon.folder, "top");
  await mkdir(join(top, "sub"), { recursive: true });
  await upload(daemon, join(top, "a"), { k: "1" });
  await writeFile(join(top, "b"), "");
  await upload(daemon, join(top, "sub/c"), { k: "3" });
  await symlink("a", join(top, "link"));
  await symlink("nowhere", join(top, "broken"));
  await setAttribute(daemon, join(top, "sub"), { name: "user.e2b.folder", value: '"yes"' });
  await setAttribute(daemon, join(top, "b"), { name: "user.e2b.bytes", value: '"\\xff\\xfe"' });
  await setAttribute(daemon, join(top, "b"), { name: "user.e2b.text", value: '"ok"' });
  const listed = await daemon.files.listDir({ path: top, depth: 2 });
  expect(listed.entries.map(({ name, metadata }) => [name, metadata])).toEqual([
    ["a", { k: "1" }],
    ["b", { text: "ok" }],
    ["broken", {}],
    ["link", { k: "1" }],
    ["sub", { folder: "yes" }],
    ["c", { k: "3" }],
  ]);
  const moved = await daemon.files.move({ source: join(top, "a"), destination: join(top, "d") });
  expect(moved.entry?.metadata).toEqual({ k: "1" });
  const controller = new AbortController();
  const watch = daemon.files.watchDir(
    { path: top, includeEntry: true },
    { signal: controller.signal },
  );
  const seen: unknown[] = [];
  const watching = (async () => {
    for await (const { event } of watch) {
      seen.push(event.case === "filesystem" ? event.value.entry?.metadata : event.case);
    }
  })();
  await expect.poll(() => seen).toEqual(["start"]);
  await upload(daemon, join(top, "new"), { k: "w" });
  await expect.poll(() => seen).toContainEqual({ k: "w" });
  controller.abort();
  await faultOf(watching);
});

test("a thousand files are asked for at once", async () => {
  await using daemon = await startTestDaemon();
  const top = join(daemon.folder, "many");
  await mkdir(top);
  const names = Array.from({ length: 1000 }, (_, index) => `f${String(index).padStart(4, "0")}`);
  await Promise.all(names.map(async (name) => writeFile(join(top, name), "")));
  await setAttribute(daemon, join(top, "f0500"), { name: "user.e2b.k", value: '"v"' });
  const { entries } = await daemon.files.listDir({ path: top });
  expect(entries.filter((entry) => "k" in entry.metadata).map((entry) => entry.name)).toEqual([
    "f0500",
  ]);
});

const tooMuch = (size: number, name: string) => ({
  status: 400,
  body: {
    code: 400,
    message: `invalid metadata: total metadata size ${size} exceeds what its file system keeps: fewer than 4096 bytes fit into the attributes of ${name}`,
  },
});

test("a listing whose metadata would fill the heap says so", async () => {
  await using daemon = await startTestDaemon();
  // Paths of several requests to the helper, each of whose replies is within its own limit.
  const top = join(daemon.folder, "d".repeat(200), "d".repeat(200));
  const part = (index: number) =>
    `--b\r\nContent-Disposition: form-data; name="file"; filename="${top}/${index}"\r\n\r\n\r\n`;
  const reply = await daemon.http("/files", {
    method: "POST",
    headers: {
      "content-type": "multipart/form-data; boundary=b",
      "x-metadata-k": "v".repeat(3_000),
    },
    body: `${Array.from({ length: 2_900 }, (_, index) => part(index)).join("")}--b--\r\n`,
  });
  expect(reply.status).toBe(200);
  expect(await faultOf(daemon.files.listDir({ path: top }))).toEqual([
    "ResourceExhausted",
    "too much metadata",
  ]);
});

test("what cannot be stored: ignored where nothing is kept, told where there is no room", async () => {
  await using daemon = await startTestDaemon();
  const kernel = "/proc/self/oom_score_adj";
  const score = (await readFile(kernel, "utf8")).trim();
  const reply = await daemon.http(`/files?path=${kernel}`, {
    method: "POST",
    headers: { ...RAW, "x-metadata-k": "v" },
    body: score,
  });
  expect([reply.status, JSON.parse(reply.text)]).toEqual([
    200,
    [{ path: kernel, name: "oom_score_adj", type: "file" }],
  ]);
  // Of the file systems that tests meet, this one has the least room for attributes.
  if ((await statfs(daemon.folder)).type !== EXT4) return;
  const path = join(daemon.folder, "full");
  await writeFile(path, "");
  await setAttribute(daemon, path, { name: "user.large", value: '"x" x 3000' });
  expect(await upload(daemon, path, { k: "v".repeat(2000) })).toEqual(tooMuch(2010, path));
  // Below the bound of headers, and more than a block of the file system.
  const fresh = join(daemon.folder, "new");
  expect(await upload(daemon, fresh, { k: "v".repeat(4085) })).toEqual(tooMuch(4095, fresh));
  expect(await readdir(daemon.folder)).not.toContain("new");
});

test("whoever kills the helper costs one call, not the daemon", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "file");
  await upload(daemon, path, { k: "v" });
  const { stdout } = await runScript(daemon.processes, `pgrep -P ${DAEMON_PID} -f attributes`);
  await runScript(daemon.processes, `kill -9 ${stdout.trim()}`);
  await expect
    .poll(async () => metadataOf(daemon, path).catch(() => undefined))
    .toEqual({
      k: "v",
    });
});
