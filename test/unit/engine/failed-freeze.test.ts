/** What a freeze leaves that did not come about in time, as beside a program that waits for a slow disk. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openFolders } from "../../../src/engine/oci/cgroup-folders.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("programs that were not frozen in time are not frozen later", async () => {
  await using folder = await makeTempFolder();
  const { path: unified } = folder;
  await writeFile(join(unified, "cgroup.procs"), "7\n");
  await writeFile(join(unified, "cgroup.events"), "populated 1\nfrozen 0\n");
  const group = openFolders({ id: "i0", unified, all: [unified] });
  await expect(group.freeze()).rejects.toMatchObject({ code: "deadline_exceeded" });
  expect(await readFile(join(unified, "cgroup.freeze"), "utf8")).toBe("0");
});
