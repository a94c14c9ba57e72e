/** What is written of a tree: as much as it has, however many names a file of it has. */

import { lstat, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createContents } from "../../../src/images/contents.ts";
import { createTree, type Metadata } from "../../../src/images/tree.ts";
import { writeTree } from "../../../src/images/write-tree.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const NAMES = 1_000;
const meta: Metadata = {
  mode: 0o644,
  uid: process.getuid?.() ?? 0,
  gid: process.getgid?.() ?? 0,
  mtimeSeconds: 1_700_000_000,
  attributes: [["user.note", Buffer.alloc(2_000, "x")]],
};

test("attributes are written once for a file or a link of many names", async () => {
  await using folder = await makeTempFolder();
  const contents = await createContents(join(folder.path, "contents"), 1_000);
  const tree = createTree();
  tree.addFile("file", meta, await contents.add("text"));
  tree.addSymlink("link", meta, "file");
  for (let index = 0; index < NAMES; index += 1) {
    tree.addHardlink(`file-${index}`, "file");
    tree.addHardlink(`link-${index}`, "link");
  }
  const [directory, steps] = [join(folder.path, "root"), join(folder.path, "steps")];
  await writeTree({
    root: tree.root,
    directory,
    contents: contents.directory,
    steps,
    perlDirectory: PERL_DIRECTORY,
    signal: AbortSignal.timeout(60_000),
  });
  const file = await lstat(join(directory, "file"));
  const link = await lstat(join(directory, `link-${NAMES - 1}`));
  expect({ names: file.nlink, isLink: link.isSymbolicLink() }).toEqual({
    names: NAMES + 1,
    isLink: true,
  });
  expect((await stat(steps)).size).toBeLessThan(2 * NAMES * 100);
});
