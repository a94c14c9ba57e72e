/** Composing is the kernel's work, and a full disk changes nothing. */

import { execFile } from "node:child_process";
import { mkdir, readFile, readdir, stat, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { toTarget } from "../../support/daemon-target.ts";
import { startTestDaemon, type TestDaemon } from "../../support/envd.ts";

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

/** System calls that read or write, of a process and of the children that it has waited for. */
async function countTransfers(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/io`, "utf8");
  return [...text.matchAll(/^sysc[rw]: (\d+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
}

test("256 MiB take a few dozen calls: no byte passes through a buffer of ours", async () => {
  await using daemon = await startTestDaemon();
  const { pid } = await toTarget(daemon);
  const sources = Array.from({ length: 4 }, (_, index) => join(daemon.folder, `part${index}`));
  for (const [index, source] of sources.entries()) {
    await writeFile(source, Buffer.alloc(SIZE_BYTES, index + 1));
  }
  const target = join(daemon.folder, "whole");
  const before = await countTransfers(pid);
  expect(await compose(daemon, sources, target)).toEqual({ status: 200, message: undefined });
  const calls = (await countTransfers(pid)) - before;
  // Buffers of a megabyte would need 512, those of the usual tools thousands.
  expect(calls).toBeLessThan(200);
  const bytes = await readFile(target);
  const firsts = sources.map((_, index) => bytes[index * SIZE_BYTES]);
  expect([bytes.length, firsts, bytes.at(-1)]).toEqual([4 * SIZE_BYTES, [1, 2, 3, 4], 4]);
});

test.skipIf(userInfo().uid !== 0)("a full disk is 507, and nothing is lost", async () => {
  await using daemon = await startTestDaemon();
  const disk = join(daemon.folder, "disk");
  await mkdir(disk);
  await run("mount", ["-t", "tmpfs", "-o", "size=8m", "sandbox-mcp-test", disk]);
  try {
    const sources = [join(disk, "a"), join(disk, "b")];
    for (const source of sources) await writeFile(source, Buffer.alloc(3 * MIB, source));
    const target = join(disk, "target");
    await writeFile(target, "as it was");
    expect(await compose(daemon, sources, target)).toEqual({
      status: 507,
      message: "not enough disk space available",
    });
    expect([
      await readFile(target, "utf8"),
      (await readdir(disk)).toSorted(),
      (await stat(join(disk, "a"))).size,
    ]).toEqual(["as it was", ["a", "b", "target"], 3 * MIB]);
    const upload = await daemon.http(`/files?path=${join(disk, "upload")}`, {
      method: "POST",
      headers: { "content-type": "application/octet-stream" },
      body: Buffer.alloc(4 * MIB),
    });
    expect([upload.status, JSON.parse(upload.text).message]).toEqual([
      507,
      expect.stringContaining("not enough disk space available"),
    ]);
  } finally {
    await run("umount", [disk]);
  }
});
