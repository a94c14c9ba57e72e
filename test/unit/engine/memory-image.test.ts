/** Where an image of memory can be restored, and what an image may consist of. */

import { chmod, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  findMismatch,
  MEMORY_IMAGE,
  readPlace,
  readProcessor,
  requireRestorable,
  sealImage,
} from "../../../src/engine/gvisor/memory-image.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const HERE = {
  runtime: "aa",
  architecture: "x64",
  processor: ["sse4_2", "avx2"],
  kernel: "6.1",
  daemon: "daemon-1",
};
const MB = 1024 * 1024;

test.for([
  { image: {}, fault: undefined },
  { image: { processor: ["avx2"] }, fault: undefined },
  { image: { kernel: "6.2" }, fault: undefined },
  { image: { processor: ["avx2", "amx_tile"] }, fault: "this processor lacks amx_tile" },
  { image: { runtime: "bb" }, fault: "this runsc is another version" },
  { image: { daemon: "daemon-2" }, fault: "this service is another version" },
  { image: { architecture: "arm64" }, fault: "it is of another processor architecture" },
])("an image of $image → $fault", ({ image, fault }) => {
  expect(findMismatch({ ...HERE, ...image }, HERE)).toBe(fault);
});

test("the abilities of a processor are read as the kernel names them", () => {
  const text =
    "processor\t: 0\nflags\t\t: fpu sse4_2 avx2\nbugs\t: x\n\nprocessor\t: 1\nflags\t: y\n";
  expect(readProcessor(text)).toEqual(["fpu", "sse4_2", "avx2"]);
  expect(readProcessor("Features\t: fp asimd\n")).toEqual(["fp", "asimd"]);
  expect(readProcessor("")).toEqual([]);
});

async function makeImage(folder: string): Promise<string> {
  const image = join(folder, MEMORY_IMAGE);
  await mkdir(image);
  await writeFile(join(image, "pages.img"), Buffer.alloc(1000));
  await chmod(join(image, "pages.img"), 0o644);
  return image;
}

test("a sealed image is for root alone, and is restorable here and nowhere else", async () => {
  await using folder = await makeTempFolder();
  const image = await makeImage(folder.path);
  const place = await readPlace(process.execPath, "daemon-1");
  expect(await sealImage(folder.path, { ...place, secret: "s" }, MB)).toBe(1000);
  for (const path of [join(image, "pages.img"), join(folder.path, "memory.json")]) {
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  }
  expect(await requireRestorable(folder.path, place)).toMatchObject({ ...place, secret: "s" });
  const other = { ...place, runtime: "bb" };
  await expect(requireRestorable(folder.path, other)).rejects.toMatchObject({
    code: "failed_precondition",
    word: "sandbox_memory_not_restorable",
  });
  const text = await readFile(join(folder.path, "memory.json"), "utf8");
  for (const damaged of ["", "{}", text.slice(0, -1), `${text}${" ".repeat(MB)}`]) {
    await writeFile(join(folder.path, "memory.json"), damaged);
    await expect(requireRestorable(folder.path, place)).rejects.toMatchObject({
      word: "sandbox_memory_not_restorable",
    });
  }
});

test("an image that is too large, or has anything but files, is refused", async () => {
  await using folder = await makeTempFolder();
  const image = await makeImage(folder.path);
  const note = { ...HERE, secret: "s" };
  await expect(sealImage(folder.path, note, 999)).rejects.toMatchObject({
    code: "resource_exhausted",
  });
  await symlink("/etc/hostname", join(image, "link.img"));
  await expect(sealImage(folder.path, note, MB)).rejects.toMatchObject({ code: "internal" });
});
