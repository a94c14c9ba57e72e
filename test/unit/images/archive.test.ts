/** Archives that other programs write, and that an import does not read: the reason says what to do. */

import { execFile } from "node:child_process";
import { appendFile, readdir, truncate, writeFile } from "node:fs/promises";
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

test("a named pipe that nothing writes to is no file", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "pipe");
  await run("mkfifo", [path]);
  await expect(openArchiveFile(path)).rejects.toThrow(`the image is not valid: ${path} is no file`);
});

test("a cancel ends the import within an entry", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "image.tar");
  await writeFile(join(folder.path, "oci-layout"), "{}");
  await run("truncate", ["--size=4G", join(folder.path, "other")]);
  await run("tar", ["-C", folder.path, "-cf", path, "oci-layout"]);
  // The data of the last entry is a hole of the archive.
  const head = await run("sh", ["-c", 'tar -C "$1" -cf - other | head -c 512', "sh", folder.path], {
    encoding: "buffer",
  });
  await truncate(path, 1_024);
  await appendFile(path, head.stdout);
  await truncate(path, 1_536 + 4 * 1024 ** 3 + 1_024);
  const home = join(folder.path, "home");
  const cancel = new AbortController();
  const opening = openAt(path, home, cancel.signal).catch((error: unknown) => error);
  const files = async () => (await readdir(home, { recursive: true }).catch(() => [])).join();
  await expect.poll(files, { interval: 5 }).toContain("layout/oci-layout");
  cancel.abort(new Error("cancelled"));
  expect(await opening).toEqual(new Error("cancelled"));
  expect(await readdir(join(home, "layers"))).toEqual([]);
});

async function openAt(
  path: string,
  home: string,
  signal = new AbortController().signal,
): Promise<PulledImage> {
  await using file = await openArchiveFile(path);
  return await openArchive(file, { home, signal });
}
