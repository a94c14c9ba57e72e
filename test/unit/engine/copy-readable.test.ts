/** What of a tree of this machine gets into a template, and how. */

import { execFileSync } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { copyReadable } from "../../../src/engine/templates/copy-readable.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MODIFIED = new Date("2020-01-02T03:04:05Z");

test("files, folders and links that all may read are copied with modes and times, the rest never", async () => {
  await using folder = await makeTempFolder();
  const [source, root] = [join(folder.path, "source"), join(folder.path, "root")];
  await mkdir(join(source, "open/empty"), { recursive: true });
  await mkdir(join(source, "private"), { mode: 0o750 });
  await writeFile(join(source, "private/key"), "secret");
  await writeFile(join(source, "open/program"), "text", { mode: 0o755 });
  await utimes(join(source, "open/program"), MODIFIED, MODIFIED);
  await writeFile(join(source, "open/secret"), "secret", { mode: 0o640 });
  await symlink("../nowhere", join(source, "open/link"));
  execFileSync("sh", ["-c", `mkfifo -m 644 "$1"`, "sh", join(source, "open/pipe")]);
  await chmod(join(source, "open"), 0o775);

  await copyReadable(source.slice(1), root);
  await copyReadable("is/not/there", root);

  const copy = join(root, source);
  expect(await readdir(root)).toEqual([source.split("/")[1]]);
  expect((await readdir(copy, { recursive: true })).toSorted()).toEqual([
    "open",
    "open/empty",
    "open/link",
    "open/program",
  ]);
  expect((await lstat(join(copy, "open"))).mode & 0o7777).toBe(0o775);
  const { mode, mtime } = await lstat(join(copy, "open/program"));
  expect([mode & 0o7777, mtime]).toEqual([0o755, MODIFIED]);
  expect(await readFile(join(copy, "open/program"), "utf8")).toBe("text");
  expect(await readlink(join(copy, "open/link"))).toBe("../nowhere");
});

test("one file and one link are copied without what lies beside them", async () => {
  await using folder = await makeTempFolder();
  const [source, root] = [join(folder.path, "source"), join(folder.path, "root")];
  await mkdir(source);
  for (const name of ["one", "other"]) await writeFile(join(source, name), name);
  await symlink("one", join(source, "link"));
  for (const name of ["one", "link"]) await copyReadable(join(source, name).slice(1), root);
  expect(await readdir(join(root, source))).toEqual(["link", "one"]);
});
