/** Files that programs make to break a call: times, sizes and names at the edge, unreadable content. */

import { execFileSync } from "node:child_process";
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";

/** A file system in memory stores every time and every size. */
async function memoryFolder() {
  const path = await mkdtemp("/dev/shm/envd-hostile-");
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

async function download(daemon: TestDaemon, path: string, headers: Record<string, string> = {}) {
  const target = `/files?username=root&path=${encodeURIComponent(path)}`;
  const { status, text } = await daemon.http(target, { headers });
  return [status, text];
}

test.for([
  ["300000000000", "9999-12-31T23:59:59.000Z"],
  ["-70000000000", "0001-01-01T00:00:00.000Z"],
  ["1000000000.5", "2001-09-09T01:46:40.500Z"],
] as const)("a file of the second %s is told as of %s", async ([second, time]) => {
  await using daemon = await startTestDaemon();
  await using folder = await memoryFolder();
  const path = join(folder.path, "file");
  execFileSync("touch", ["-d", `@${second}`, path]);
  const { entry } = await daemon.files.stat({ path });
  const { entries } = await daemon.files.listDir({ path: folder.path });
  expect(
    [entry, ...entries].map((one) => one?.modifiedTime && timestampDate(one.modifiedTime)),
  ).toEqual([new Date(time), new Date(time)]);
});

test("a file of the largest size is listed, and its content is refused", async () => {
  await using daemon = await startTestDaemon();
  await using folder = await memoryFolder();
  const path = join(folder.path, "file");
  execFileSync("sh", ["-c", 'truncate -s 9223372036854775807 "$1"', "sh", path]);
  const { entries } = await daemon.files.listDir({ path: folder.path });
  const refusal = [
    400,
    JSON.stringify({ code: 400, message: `path '${path}' is too large to be read` }),
  ];
  expect([
    entries.map(({ size }) => size),
    await download(daemon, path, { "accept-encoding": "identity" }),
    await download(daemon, path, { "accept-encoding": "gzip" }),
    await download(daemon, path, { range: "bytes=-5" }),
  ]).toEqual([[2n ** 63n - 1024n], refusal, refusal, refusal]);
});

test("a part of a file of some terabytes", async () => {
  await using daemon = await startTestDaemon();
  await using folder = await memoryFolder();
  const path = join(folder.path, "file");
  await writeFile(path, "begin");
  await truncate(path, 2 ** 44);
  expect([
    await download(daemon, path, { range: "bytes=0-4" }),
    await download(daemon, path, { range: "bytes=-2" }),
  ]).toEqual([
    [206, "begin"],
    [206, "\0\0"],
  ]);
});

test("a file that the kernel does not let be read is told with its reason", async () => {
  await using daemon = await startTestDaemon();
  const path = "/proc/self/mem";
  const message = `error reading file '${path}': read ${path}: input/output error`;
  expect(await download(daemon, path)).toEqual([500, JSON.stringify({ code: 500, message })]);
});
