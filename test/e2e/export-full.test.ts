/** `template export` on full disks: that of the home, and that of its file. */

import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { expect, test } from "vitest";
import { BASE_RECIPE } from "../../src/engine/templates/base.ts";
import { openImageDisk } from "../support/faults/image-disk.ts";
import { startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const MIB = 1024 ** 2;
/** More than the kernel lets a full disk have, from blocks that it held back for itself. */
const LARGE_BYTES = 8 * MIB;
const BASE = `base-1000000000000-${BASE_RECIPE}`;

test("an export needs what is kept free on the disk of the home, and space for its file", async () => {
  await using disk = await openImageDisk(256 * MIB, ["mkfs.ext4", "-q", "-F"]);
  await using folder = await makeTempFolder();
  for (const home of [disk.path, folder.path]) {
    const root = join(home, "layers", BASE, "root");
    for (const name of ["etc", "usr/bin", "usr/lib"]) {
      await mkdir(join(root, name), { recursive: true });
    }
    await writeFile(join(root, "etc/passwd"), "root:x:0:0::/root:/bin/bash\n");
    await writeFile(join(root, "etc/large"), randomBytes(LARGE_BYTES));
  }
  const run = async (home: string) => {
    const words = ["export", "base", join(disk.path, "base.tar"), "--home", home];
    await using program = startProgram(["template", ...words]);
    await program.exited();
    return program.stderr();
  };
  expect(await run(disk.path)).toMatch(
    /disk of \S+ has \d+ MiB left of the 1024 MiB that are kept free/,
  );
  const ballast = createWriteStream(join(disk.path, "ballast"));
  await expect(pipeline(endless(), ballast)).rejects.toMatchObject({ code: "ENOSPC" });
  expect(await run(folder.path)).toMatch(/^sandbox-mcp: no space left for \S+base.tar: free space/);
  expect(await readdir(disk.path)).not.toContainEqual(expect.stringMatching(/^base.tar/));
  expect(await readdir(join(disk.path, "layers"))).toEqual([BASE]);
});

function* endless() {
  for (;;) yield Buffer.alloc(4096);
}
