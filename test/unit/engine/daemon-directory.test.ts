/** The daemon's directory: its name, by what its compiled code depends on, and whether it is intact. */

import { chmod, cp, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { WarmUp } from "../../../src/engine/daemon/compile-cache.ts";
import { locateDaemon } from "../../../src/engine/daemon/daemon.ts";
import { isIntact, writeManifest } from "../../../src/engine/daemon/manifest.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const CODE_BYTES = 8 * 1024 ** 2;

/** What this process has read so far, from files and everything else. */
async function readBytes(): Promise<number> {
  return Number(/^rchar: (\d+)$/m.exec(await readFile("/proc/self/io", "utf8"))?.[1]);
}

const request = (body: string | Uint8Array): WarmUp => {
  const rest = { socket: "public", method: "POST", path: "/call" } as const;
  return (folder) => [{ ...rest, headers: { folder }, body }];
};

async function directoryOf(warmUp: WarmUp, bundle = import.meta.filename): Promise<string> {
  return locateDaemon("/home", {
    bundle,
    starter: import.meta.filename,
    node: process.execPath,
    perlDirectory: PERL_DIRECTORY,
    warmUp,
  });
}

test("the same parts have the same directory", async () => {
  expect(await directoryOf(request("a"))).toBe(await directoryOf(request("a")));
});

test("other requests of the warm-up run have another directory", async () => {
  const directories = [[], [request("a")], [request("b")], [request(Buffer.from("a"))]].map(
    async ([warmUp = () => []]) => directoryOf(warmUp),
  );
  expect(new Set(await Promise.all(directories)).size).toBe(directories.length);
});

test("code that has not changed is read once", async () => {
  await using folder = await makeTempFolder();
  const bundle = join(folder.path, "bundle");
  await writeFile(bundle, Buffer.alloc(CODE_BYTES));
  const named = await directoryOf(request("a"), bundle);
  const before = await readBytes();
  expect(await directoryOf(request("a"), bundle)).toBe(named);
  expect((await readBytes()) - before).toBeLessThan(CODE_BYTES);
});

test("code of the same size and another content has another directory", async () => {
  await using folder = await makeTempFolder();
  const bundle = join(folder.path, "bundle");
  await writeFile(bundle, "first");
  const named = await directoryOf(request("a"), bundle);
  await writeFile(bundle, "other");
  expect(await directoryOf(request("a"), bundle)).not.toBe(named);
  await writeFile(bundle, "first");
  expect(await directoryOf(request("a"), bundle)).toBe(named);
});

test.for([
  { name: "program", mode: 0o711, other: 0o755 },
  { name: "lib", mode: 0o755, other: 0o700 },
  { name: "", mode: 0o755, other: 0o700 },
])("a directory in which '$name' has another mode is not intact", async (changed) => {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "lib"));
  for (const name of ["program", "lib/library"]) await writeFile(join(folder.path, name), name);
  for (const name of ["lib", ""]) await chmod(join(folder.path, name), 0o755);
  await chmod(join(folder.path, "program"), 0o711);
  await writeManifest(folder.path);
  expect(await isIntact(folder.path)).toBe(true);
  const path = join(folder.path, changed.name);
  await chmod(path, changed.other);
  expect(await isIntact(folder.path)).toBe(false);
  await chmod(path, changed.mode);
  expect(await isIntact(folder.path)).toBe(true);
});

test("a copy of the directory is hashed once", async () => {
  await using folder = await makeTempFolder();
  const [made, copy] = [join(folder.path, "made"), join(folder.path, "copy")];
  await mkdir(made, { mode: 0o755 });
  await writeFile(join(made, "program"), "program");
  await writeManifest(made);
  await cp(made, copy, { recursive: true });
  expect(await isIntact(copy)).toBe(true);
  const { ino } = await stat(join(copy, "program"));
  const manifest = JSON.parse(await readFile(join(copy, "manifest.json"), "utf8"));
  expect(manifest.program.inode).toBe(String(ino));
  expect((await readdir(folder.path)).toSorted()).toEqual(["copy", "made"]);
});
