/** The daemon's directory: its name, by what its compiled code depends on, and whether it is intact. */

import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { WarmUp } from "../../../src/engine/daemon/compile-cache.ts";
import { locateDaemon } from "../../../src/engine/daemon/daemon.ts";
import { isIntact, writeManifest } from "../../../src/engine/daemon/manifest.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const request = (body: string | Uint8Array): WarmUp => {
  const rest = { socket: "public", method: "POST", path: "/call" } as const;
  return (folder) => [{ ...rest, headers: { folder }, body }];
};

async function directoryOf(warmUp: WarmUp): Promise<string> {
  return locateDaemon("/home", {
    bundle: import.meta.filename,
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
