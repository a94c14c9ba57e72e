/** Folders that several callers make at once. */

import { stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ensureDirectories } from "../../../src/envd/owner.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const USER = { name: "root", uid: 0, gid: 0, home: "/root", groups: [0] };

test("many callers make the same missing folders, and none is refused", async () => {
  await using folder = await makeTempFolder();
  const paths = Array.from({ length: 200 }, (_, round) => join(folder.path, `${round}`, "a", "b"));
  // Of different depths, so that one caller looks while another makes.
  await Promise.all(
    paths.flatMap((path) =>
      [path, dirname(path), join(path, "c"), path].map(async (goal) =>
        ensureDirectories(goal, USER),
      ),
    ),
  );
  const made = await Promise.all(paths.map(async (path) => (await stat(path)).isDirectory()));
  expect(made.every(Boolean)).toBe(true);
});

test("a file or a link that leads nowhere in the way is named", async () => {
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "file"), "");
  await symlink("gone", join(folder.path, "link"));
  for (const name of ["file", "link"]) {
    const path = join(folder.path, name);
    await expect(ensureDirectories(join(path, "below"), USER)).rejects.toThrow(
      `path is a file: ${path}`,
    );
  }
});
