/** What a container uses: the memory of programs of a kernel of its own is in files in memory. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openFolders } from "../../../src/engine/oci/cgroup-folders.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("files in memory count as used, those on the disk as cache", async () => {
  await using folder = await makeTempFolder();
  const unified = join(folder.path, "unified");
  await mkdir(unified);
  await writeFile(join(unified, "memory.current"), "1000\n");
  await writeFile(join(unified, "memory.stat"), "anon 50\nfile 900\nshmem 600\n");
  await writeFile(join(unified, "cpu.stat"), "usage_usec 2000\n");
  const { readUsage } = openFolders({ id: "i0", unified, all: [unified] });
  expect(await readUsage()).toEqual({ cpuMs: 2, memoryBytes: 700, cacheBytes: 300 });
});
