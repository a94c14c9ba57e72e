/** Uploads that replace a known content, by paths that the kernel does not tell to be of one file. */

import { createHash } from "node:crypto";
import { mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createTurns } from "../../../src/common/turns.ts";
import { whileContent } from "../../../src/envd/files/if-content.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("of many that replace one content in a directory with two paths a single one does", async () => {
  await using folder = await makeTempFolder();
  const one = join(folder.path, "one");
  await mkdir(one);
  // Like a second mount, it is not resolved here.
  const other = join(folder.path, "other");
  await symlink(one, other);
  const places = [join(one, "file"), join(other, "file")];
  const [place = ""] = places;
  await writeFile(place, "before");
  const known = await stat(place);
  const turns = createTurns();
  const contentHash = createHash("sha256").update("before").digest("hex");
  const replace = async (path: string) =>
    whileContent({ contentHash, path }, { turns, place: path, known }, async () =>
      writeFile(path, "after"),
    );
  const ends = await Promise.allSettled(
    Array.from({ length: 10 }, () => places).flatMap((paths) => paths.map(replace)),
  );
  expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});
