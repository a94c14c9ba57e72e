/** Archives that other programs write, and that an import does not read: the reason says what to do. */

import { execFile } from "node:child_process";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openArchive, openArchiveFile } from "../../../src/images/archive.ts";
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
  const open = async () => {
    await using file = await openArchiveFile(path);
    return await openArchive(file, { home, signal: new AbortController().signal });
  };
  await expect(open()).rejects.toMatchObject({
    message: says,
    hint: expect.stringMatching(hint),
  });
  expect(await readdir(join(home, "layers")).catch(() => [])).toEqual([]);
});
