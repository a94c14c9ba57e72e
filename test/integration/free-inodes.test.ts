/** A disk that has bytes left, and no inodes for further files. */

import { execFile } from "node:child_process";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { withDiskSpace } from "../../src/commands/templates/with-disk-space.ts";
import { isRootless } from "../../src/common/privilege.ts";
import { runProgram } from "../../src/engine/host/run-program.ts";
import { makeLayer } from "../../src/engine/storage/layers.ts";
import {
  requireDiskSpace,
  toCopyFault,
  toDiskFault,
} from "../../src/sandboxes/disks/disk-space.ts";
import { cacheTemplateId } from "../../src/sandboxes/template-builds/cache.ts";
import { openStore } from "../../src/store/sqlite.ts";
import { READY_BUILD } from "../support/engine/build-record.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const run = promisify(execFile);
/** Said by a program, whose errors have no code. */
const FAULT = new Error("launcher: bind envd.sock: No space left on device");
/** Of the folder itself. */
const OWN_INODES = 1;

async function openDisk(inodes: number) {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await makeTempFolder());
  const options = `size=64g,nr_inodes=${inodes + OWN_INODES}`;
  await run("mount", ["-t", "tmpfs", "-o", options, "none", path]);
  stack.defer(async () => void (await run("umount", [path])));
  const owned = stack.move();
  return { path, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test.skipIf(isRootless())("nothing begins with too few inodes", async () => {
  await using few = await openDisk(999);
  await expect(requireDiskSpace(few.path)).rejects.toMatchObject({
    code: "resource_exhausted",
    message: expect.stringContaining("999 inodes"),
  });
  await using enough = await openDisk(1_000);
  await expect(requireDiskSpace(enough.path)).resolves.toBeUndefined();
});

test.skipIf(isRootless())("what fails for want of inodes is told as a full disk", async () => {
  await using disk = await openDisk(100);
  expect(await toDiskFault(FAULT, disk.path)).toBe(FAULT);
  for (let left = 100; left > 1; left -= 1) await writeFile(join(disk.path, `${left}`), "");
  expect(await toDiskFault(FAULT, disk.path)).toMatchObject({ code: "resource_exhausted" });
});

test.skipIf(isRootless())(
  "a command that makes a template takes the space of cached steps",
  async () => {
    await using disk = await openDisk(2_000);
    const root = join(disk.path, "layers/step/root");
    await mkdir(root, { recursive: true });
    for (let count = 0; count < 1_100; count += 1) await writeFile(join(root, `${count}`), "");
    using store = openStore({ path: join(disk.path, "state.db") });
    const signal = AbortSignal.timeout(60_000);
    const work = async () => readdir(join(disk.path, "layers"));
    const made = async () => withDiskSpace({ home: disk.path, signal }, work);
    await expect(made()).rejects.toMatchObject({ code: "resource_exhausted" });
    const templateId = cacheTemplateId({ team: "local" });
    store.builds.put({
      ...READY_BUILD,
      templateId,
      layers: [{ root: "step/root" }],
      cacheKey: "key",
    });
    expect(await made()).toEqual([]);
    expect(store.builds.all()).toEqual([]);
  },
);

const NAMES = Array.from({ length: 100 }, (_, index) => String(index));

const FILLS: Readonly<Record<string, (draft: string) => Promise<void>>> = {
  async "this program"(draft) {
    for (const name of NAMES) await writeFile(join(draft, name), "");
  },
  async "another program"(draft) {
    await runProgram(["mkdir", ...NAMES], { cwd: draft });
  },
};

test.skipIf(isRootless()).for(Object.entries(FILLS))(
  "a layer for which %s finds no inode is told of a full disk",
  async ([, fill]) => {
    await using disk = await openDisk(50);
    await expect(makeLayer(join(disk.path, "layer"), fill)).rejects.toMatchObject({
      code: "resource_exhausted",
      message: expect.stringMatching(/^disk of .*: no space left$/),
    });
    expect(await readdir(disk.path)).toEqual([]);
  },
);

test("what a copy said of a full disk is told, though its files are gone by then", async () => {
  await using folder = await makeTempFolder();
  const said = new Error("perl: copier: write /a/b: No space left on device");
  expect(await toCopyFault(said, folder.path)).toMatchObject({
    code: "resource_exhausted",
    hint: expect.stringContaining("free space on the disk"),
  });
  const other = new Error("perl: copier: write /a/b: Input/output error");
  expect(await toCopyFault(other, folder.path)).toBe(other);
});
