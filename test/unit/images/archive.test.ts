/** Archives that other programs write, and that an import does not read: the reason says what to do. */

import { execFile } from "node:child_process";
import { readdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openArchive, openArchiveFile } from "../../../src/images/archive.ts";
import type { PulledImage } from "../../../src/images/images.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);

test.for([
  {
    name: "compressed",
    flags: ["-czf"],
    says: "the archive is compressed by gzip",
    hint: /^decompress/,
  },
  {
    name: "of older versions of docker",
    flags: ["-cf"],
    says: "the archive has no index.json",
    hint: /pull docker-archive:FILE/,
  },
])("an archive that is $name", async ({ flags, says, hint }) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "image.tar");
  await writeFile(join(folder.path, "manifest.json"), "[]");
  await run("tar", ["-C", folder.path, ...flags, path, "manifest.json"]);
  const home = join(folder.path, "home");
  await expect(openAt(path, home)).rejects.toMatchObject({
    message: says,
    hint: expect.stringMatching(hint),
  });
  expect(await readdir(join(home, "layers")).catch(() => [])).toEqual([]);
});

test("what is no archive, or only the beginning of one, is not told of a layer", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "image.tar");
  await writeFile(join(folder.path, "index.json"), "x".repeat(2_000));
  await run("tar", ["-C", folder.path, "-cf", path, "index.json"]);
  await truncate(path, 1_024);
  await expect(openAt(path, folder.path)).rejects.toThrow(
    "the image, or a layer of it, is cut off",
  );
  for (const content of ["", "x", "no archive\n".repeat(1_000), "\xfd7zXZ\0".repeat(200)]) {
    await writeFile(path, content, "latin1");
    await expect(openAt(path, folder.path)).rejects.toMatchObject({
      code: "failed_precondition",
      message: `${path} is no archive of tar`,
      hint: "template export writes one, and so does docker save",
    });
  }
});

async function openAt(path: string, home: string): Promise<PulledImage> {
  await using file = await openArchiveFile(path);
  return await openArchive(file, { home, signal: new AbortController().signal });
}
