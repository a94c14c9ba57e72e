/** Composing is the kernel's work, and a full disk changes nothing. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { toTarget } from "../../support/hostile/daemon-target.ts";

const MIB = 1024 * 1024;
const SIZE_BYTES = 64 * MIB;
const run = promisify(execFile);

async function compose(daemon: TestDaemon, sources: readonly string[], destination: string) {
  const { status, text } = await daemon.http("/files/compose", {
    method: "POST",
    body: JSON.stringify({ source_paths: sources, destination }),
  });
  return { status, message: JSON.parse(text).message };
}

/** What a process and the children that it has waited for have read and written, by calls and bytes. */
async function readTransfers(
  pid: number,
): Promise<{ readonly calls: number; readonly text: string }> {
  const text = await readFile(`/proc/${pid}/io`, "utf8");
  const counts = [...text.matchAll(/^sysc[rw]: (\d+)$/gm)].map(([, count]) => Number(count));
  return { calls: counts.reduce((sum, count) => sum + count, 0), text };
}

test("256 MiB take a few dozen calls: no byte passes through a buffer of ours", async () => {
  await using daemon = await startTestDaemon();
  const { pid } = await toTarget(daemon);
  const sources = Array.from({ length: 4 }, (_, index) => join(daemon.folder, `part${index}`));
  for (const [index, source] of sources.entries()) {
    await writeFile(source, Buffer.alloc(SIZE_BYTES, index + 1));
  }
  const target = join(daemon.folder, "whole");
  const before = await readTransfers(pid);
  expect(await compose(daemon, sources, target)).toEqual({ status: 200, message: undefined });
  const after = await readTransfers(pid);
  // Buffers of a megabyte would need 512, those of the usual tools thousands.
  expect(after.calls - before.calls, `${before.text}\n${after.text}`).toBeLessThan(200);
  const bytes = await readFile(target);
  const firsts = sources.map((_, index) => bytes[index * SIZE_BYTES]);
  expect([bytes.length, firsts, bytes.at(-1)]).toEqual([4 * SIZE_BYTES, [1, 2, 3, 4], 4]);
});

interface Disk extends AsyncDisposable {
  readonly path: string;
}

/** A small file system in memory, gone at the end. */
async function mountDisk(path: string, options: string): Promise<Disk> {
  await mkdir(path);
  await run("mount", ["-t", "tmpfs", "-o", options, "sandbox-mcp-test", path]);
  return {
    path,
    async [Symbol.asyncDispose]() {
      await run("umount", [path]);
    },
  };
}

const FULL = { status: 507, message: "not enough disk space available" };
const needsRoot = userInfo().uid !== 0;

test.skipIf(needsRoot)("a full disk is 507, and nothing is lost", async () => {
  await using daemon = await startTestDaemon();
  await using disk = await mountDisk(join(daemon.folder, "disk"), "size=8m");
  const sources = [join(disk.path, "a"), join(disk.path, "b")];
  for (const source of sources) await writeFile(source, Buffer.alloc(3 * MIB, source));
  const target = join(disk.path, "target");
  await writeFile(target, "as it was");
  expect(await compose(daemon, sources, target)).toEqual(FULL);
  expect([
    await readFile(target, "utf8"),
    (await readdir(disk.path)).toSorted(),
    (await stat(join(disk.path, "a"))).size,
  ]).toEqual(["as it was", ["a", "b", "target"], 3 * MIB]);
  const upload = await daemon.http(`/files?path=${join(disk.path, "upload")}`, {
    method: "POST",
    headers: { "content-type": "application/octet-stream" },
    body: Buffer.alloc(4 * MIB),
  });
  expect([upload.status, JSON.parse(upload.text).message]).toEqual([
    507,
    expect.stringContaining("not enough disk space available"),
  ]);
});

test.skipIf(needsRoot)("so is one that is full elsewhere, or has no more inodes", async () => {
  await using daemon = await startTestDaemon();
  await using disk = await mountDisk(join(daemon.folder, "disk"), "size=4m,nr_inodes=3");
  const sources = ["one", "two", "three"].map((name) => join(daemon.folder, name));
  for (const source of sources) await writeFile(source, Buffer.alloc(2 * MIB, source));
  const target = join(disk.path, "target");
  // From another file system the kernel may not copy; then our own copy meets the end of the disk.
  expect(await compose(daemon, sources, target)).toEqual(FULL);
  await writeFile(target, "as it was");
  await writeFile(join(disk.path, "last"), "");
  expect(await compose(daemon, sources.slice(0, 1), target)).toEqual(FULL);
  expect([
    (await readdir(disk.path)).toSorted(),
    await readFile(target, "utf8"),
    await Promise.all(sources.map(async (source) => (await stat(source)).size)),
  ]).toEqual([["last", "target"], "as it was", [2 * MIB, 2 * MIB, 2 * MIB]]);
  await rm(join(disk.path, "last"));
  expect((await compose(daemon, sources.slice(0, 1), target)).status).toBe(200);
  expect([(await stat(target)).size, existsSync(sources[0] ?? "")]).toEqual([2 * MIB, false]);
});

test("a caller that leaves in the middle leaves every source, and nothing half done", async () => {
  await using daemon = await startTestDaemon();
  const sources = Array.from({ length: 4 }, (_, index) => join(daemon.folder, `part${index}`));
  for (const source of sources) await writeFile(source, Buffer.alloc(SIZE_BYTES, 1));
  const target = join(daemon.folder, "whole");
  const body = JSON.stringify({ source_paths: sources, destination: target });
  const call = request({ socketPath: daemon.publicSocket, path: "/files/compose", method: "POST" });
  call.on("error", () => undefined);
  call.end(body);
  const names = async () => (await readdir(daemon.folder)).filter((name) => name !== "c");
  await expect.poll(names, { interval: 1 }).toHaveLength(5);
  call.destroy();
  await expect
    .poll(names)
    .toEqual(expect.not.arrayContaining([expect.stringMatching(/^\.e2b-upload\./)]));
  const left = (await names()).toSorted();
  // It may have been done just before: then it is all there.
  const isDone = left.length === 1;
  expect(left).toEqual(isDone ? ["whole"] : ["part0", "part1", "part2", "part3"]);
});
