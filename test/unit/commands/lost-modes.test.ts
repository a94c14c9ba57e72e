/** What is made anew in a home whose modes were changed, as by `chmod -R`. */

import assert from "node:assert/strict";
import { chmod, mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  BASE_PARTS,
  findNewest,
  hasLostModes,
} from "../../../src/commands/templates/base-layers.ts";
import { requireBase } from "../../../src/commands/templates/template-lack.ts";
import { loadConfig } from "../../../src/config.ts";
import { findHost } from "../../../src/engine/templates/host.ts";
import { prepareTrust } from "../../../src/engine/templates/trust.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const NAME = "base-1700000000001-00000000";

async function makeBase(home: string): Promise<string> {
  const root = join(home, "layers", NAME, "root");
  for (const part of BASE_PARTS) await mkdir(join(home, "layers", NAME, part), { recursive: true });
  await chmod(root, 0o755);
  return root;
}

test("a base that only root may enter is none, and known as one that was spoilt", async () => {
  await using home = await makeTempFolder();
  expect(await hasLostModes(home.path, "base")).toBe(false);
  const root = await makeBase(home.path);
  expect(await findNewest(home.path, "base")).toBe(NAME);
  expect(await hasLostModes(home.path, "base")).toBe(false);
  await chmod(root, 0o700);
  expect(await findNewest(home.path, "base")).toBeUndefined();
  expect(await hasLostModes(home.path, "base")).toBe(true);
});

test("a service that builds no base says why the one of its home is not used", async () => {
  await using home = await makeTempFolder();
  const loaded = loadConfig({}, ["serve", "--build-base", "off", "--home", home.path]);
  assert("config" in loaded);
  const { config } = loaded;
  await expect(requireBase(config)).rejects.toThrow("the template base was not built: ");
  const root = await makeBase(home.path);
  await requireBase(config);
  await chmod(root, 0o700);
  await expect(requireBase(config)).rejects.toThrow(
    "the template base has lost modes of its files: ",
  );
});

test("a base whose sudo runs as its caller is none, unless sudo is a link", async () => {
  await using home = await makeTempFolder();
  const root = await makeBase(home.path);
  await symlink("sudo-rs", join(root, "usr/bin/sudo"));
  expect(await findNewest(home.path, "base")).toBe(NAME);
  await writeFile(join(root, "usr/bin/sudo-rs"), "");
  await using other = await makeTempFolder();
  const spoilt = await makeBase(other.path);
  await writeFile(join(spoilt, "usr/bin/sudo"), "", { mode: 0o755 });
  expect(await findNewest(other.path, "base")).toBeUndefined();
  await chmod(join(spoilt, "usr/bin/sudo"), 0o4755);
  expect(await findNewest(other.path, "base")).toBe(NAME);
});

test("a skeleton of the host that only root may enter is none", async () => {
  await using folder = await makeTempFolder();
  const parts = ["root/usr", "root/etc/passwd", "over/root", "over/usr/local/src"];
  for (const part of parts) await mkdir(join(folder.path, part), { recursive: true });
  await chmod(join(folder.path, "root"), 0o755);
  expect(await findHost(folder.path)).toBeDefined();
  await chmod(join(folder.path, "root"), 0o700);
  expect(await findHost(folder.path)).toBeUndefined();
});

test("the layer of certificates gets its modes back", async () => {
  await using home = await makeTempFolder();
  const options = { home: home.path, file: "off", files: [], hasProxy: true };
  const trust = await prepareTrust(options);
  const root = trust?.layer.root ?? "";
  for (const path of ["etc/sudoers.d", "etc", ""]) await chmod(join(root, path), 0o700);
  expect((await prepareTrust(options))?.layer.root).toBe(root);
  const modes = await Promise.all(["", "etc"].map((path) => stat(join(root, path))));
  expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o755, 0o755]);
});
