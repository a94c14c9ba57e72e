/** R3: images that were made to do harm are refused or harmless, and nothing outside changes. */

import { createHash } from "node:crypto";
import { lstat, mkdir, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { causeCode, SandboxError } from "../../../src/common/errors.ts";
import { unpackImage } from "../../../src/images/unpack.ts";
import { HOSTILE_IMAGES, type HostileImage } from "../../support/hostile/hostile-images.ts";
import { shellLayer, writeLayout } from "../../support/images/oci-layout.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const shell = shellLayer();

/** Everything about a tree that a program could change. */
async function printOf(root: string): Promise<string> {
  const hash = createHash("sha256");
  for (const name of (await readdir(root, { recursive: true })).toSorted()) {
    const path = join(root, name);
    const { mode, uid, gid, size, mtimeMs, ctimeMs } = await lstat(path);
    hash.update(JSON.stringify([name, mode, uid, gid, size, mtimeMs, ctimeMs]));
  }
  return hash.digest("hex");
}

async function kindOf(path: string): Promise<string> {
  try {
    const entry = await lstat(path);
    if (entry.isSymbolicLink()) return "link";
    return entry.isDirectory() ? "directory" : entry.isFile() ? "file" : "other";
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(causeCode(error) ?? "")) return "missing";
    throw error;
  }
}

async function outcomeOf(
  image: HostileImage,
): Promise<{ fault: string; tree: object; out: boolean }> {
  await using folder = await makeTempFolder();
  const out = join(folder.path, "out");
  const draft = join(folder.path, "draft");
  await mkdir(out);
  await mkdir(draft);
  await writeFile(join(out, "canary"), "alive");
  const layers = [await shell, ...image.layers(out)];
  const { layout } = await writeLayout(join(folder.path, "layout"), { layers });
  const before = await printOf(out);
  let fault = "";
  try {
    const root = join(draft, "root");
    await unpackImage({ layout }, root, {
      perlDirectory: PERL_DIRECTORY,
      signal: AbortSignal.timeout(60_000),
    });
    await requireHarmless(root);
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    fault = `${error.code}: ${error.message}`;
  }
  const tree: Record<string, string> = {};
  for (const path of Object.keys(image.tree ?? {}))
    tree[path] = await kindOf(join(draft, "root", path));
  expect((await readdir(folder.path)).toSorted()).toEqual(["draft", "layout", "out"]);
  return { fault, tree, out: before === (await printOf(out)) };
}

/** No device, no pipe, no mark of an overlay, and the files of ours are files. */
async function requireHarmless(root: string): Promise<void> {
  for (const name of await readdir(root, { recursive: true })) {
    expect(await kindOf(join(root, name))).not.toBe("other");
    expect(name).not.toMatch(/(^|\/)\.wh\./);
  }
  for (const name of ["passwd", "group", "hosts", "resolv.conf", "machine-id"]) {
    expect([name, await kindOf(join(root, "etc", name))]).toEqual([name, "file"]);
  }
  expect(await readFile(join(root, "etc/passwd"), "utf8")).toMatch(/^user:x:1000:1000:/m);
  const shellPath = await readlink(join(root, "bin/sh")).catch(() => "");
  expect(shellPath).toBe("");
}

test("there are at least sixty hostile images", ({ task }) => {
  expect(HOSTILE_IMAGES.length).toBeGreaterThanOrEqual(60);
  expect(new Set(HOSTILE_IMAGES.map(({ name }) => name)).size).toBe(HOSTILE_IMAGES.length);
  expect(task.name).toContain("sixty");
});

test.for(HOSTILE_IMAGES)("R3 image: $name", async (image) => {
  const { fault, tree, out } = await outcomeOf(image);
  expect(out).toBe(true);
  expect(fault).toMatch(image.refused ?? /^$/);
  expect(fault).toMatch(/^$|^failed_precondition: /);
  expect(tree).toEqual(image.tree ?? {});
});
