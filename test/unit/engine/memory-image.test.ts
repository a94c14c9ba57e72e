/** Where an image of memory can be restored, and what an image may consist of. */

import {
  chmod,
  cp,
  link,
  mkdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newSeal } from "../../../src/engine/gvisor/image-seal.ts";
import {
  findMismatch,
  MEMORY_IMAGE,
  readImageSecret,
  readPlace,
  readProcessor,
  requireRestorable,
  sealImage,
} from "../../../src/engine/gvisor/memory-image.ts";
import { removeImage } from "../../../src/engine/gvisor/remove-image.ts";
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
  expect(await requireRestorable(folder.path, place, folder.path)).toEqual({
    secret: "s",
  });
  const other = { ...place, runtime: "bb" };
  await expect(requireRestorable(folder.path, other, folder.path)).rejects.toMatchObject({
    code: "failed_precondition",
    word: "sandbox_memory_not_restorable",
  });
  const text = await readFile(join(folder.path, "memory.json"), "utf8");
  for (const damaged of ["", "{}", text.slice(0, -1), `${text}${" ".repeat(MB)}`]) {
    await writeFile(join(folder.path, "memory.json"), damaged);
    await expect(requireRestorable(folder.path, place, folder.path)).rejects.toMatchObject({
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

function refused(reason: string) {
  return {
    word: "sandbox_memory_not_restorable",
    message: `memory cannot be restored: ${reason}`,
  };
}

/** A folder with an encrypted image, in a home of its own. */
async function makeSealed(home: string, name: string) {
  const folder = join(home, name);
  await mkdir(folder);
  await makeImage(folder);
  const place = await readPlace(process.execPath, "daemon-1");
  const seal = await newSeal({ home, isOn: true }, `copy ${name}`);
  const taken = { seal, sizeBytes: 5_000 };
  await sealImage(folder, { ...place, secret: "a secret word", taken }, MB);
  return { folder, place, note: join(folder, "memory.json") };
}

test("an encrypted image opens with the key of its home alone, and its note has no secret", async () => {
  await using home = await makeTempFolder();
  const { folder, place, note } = await makeSealed(home.path, "one");
  expect((await stat(join(home.path, "memory-key"))).mode & 0o777).toBe(0o600);
  expect(await readFile(note, "utf8")).not.toContain("secret word");
  const known = await requireRestorable(folder, place, home.path);
  expect(known).toMatchObject({ secret: "a secret word", sealed: { sizeBytes: 5_000 } });
  expect(await readImageSecret(folder, home.path)).toBe("a secret word");
  const key = join(home.path, "memory-key");
  await rename(key, `${key}.kept`);
  await expect(requireRestorable(folder, place, home.path)).rejects.toMatchObject(
    refused("the key of this home is gone"),
  );
  expect(await readImageSecret(folder, home.path)).toBe(undefined);
  await writeFile(key, Buffer.alloc(31));
  await expect(requireRestorable(folder, place, home.path)).rejects.toMatchObject(
    refused("the key of this home is damaged"),
  );
  expect(await readImageSecret(folder, home.path)).toBe(undefined);
  await writeFile(key, Buffer.alloc(32));
  await expect(requireRestorable(folder, place, home.path)).rejects.toMatchObject(
    refused("it was encrypted with another key"),
  );
  await rename(`${key}.kept`, key);
  await requireRestorable(folder, place, home.path);
});

test("a note of another image, or one that was changed, opens nothing", async () => {
  await using home = await makeTempFolder();
  const { folder, place, note } = await makeSealed(home.path, "one");
  const other = await makeSealed(home.path, "two");
  const text = await readFile(note, "utf8");
  const damaged = refused("its image is damaged or gone");
  const changes = [
    async () => writeFile(note, await readFile(other.note)),
    async () => writeFile(note, text.replace('"sizeBytes":5000', '"sizeBytes":5001')),
    async () => writeFile(note, text.replace(/"kernel":"/, '"kernel":"x')),
    async () => writeFile(note, text.replace(/"salt":"../, '"salt":"AA')),
    async () => writeFile(note, text.replace(/"secret":"[^"]*"/, '"secret":""')),
  ];
  for (const [index, change] of changes.entries()) {
    await change();
    const opened = requireRestorable(folder, place, home.path);
    await expect(opened, `change ${index}`).rejects.toMatchObject(damaged);
  }
  await writeFile(note, text);
  await rm(other.folder, { recursive: true });
  await cp(folder, other.folder, { recursive: true });
  // The whole of another one, in its place.
  const exchanged = requireRestorable(other.folder, place, home.path);
  await expect(exchanged).rejects.toMatchObject(damaged);
});

test("what an encrypted image needs is overwritten before it is removed", async () => {
  await using home = await makeTempFolder();
  const { folder, note } = await makeSealed(home.path, "one");
  const { size } = await stat(note);
  await link(note, join(home.path, "blocks"));
  await removeImage(folder);
  expect(await readFile(join(home.path, "blocks"))).toEqual(Buffer.alloc(size));
  await expect(stat(folder)).rejects.toMatchObject({ code: "ENOENT" });
  await removeImage(folder);
});
