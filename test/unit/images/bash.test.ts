/** bash in an image that has none. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { giveBash } from "../../../src/images/bash.ts";
import { createContents } from "../../../src/images/contents.ts";
import { createTreeWriter } from "../../../src/images/tree-writer.ts";
import { createTree } from "../../../src/images/tree.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const signal = AbortSignal.timeout(60_000);

const META = { mode: 0o777, uid: 0, gid: 0, mtimeSeconds: 0, attributes: [] };

async function make(folder: string, bin?: string) {
  const contents = await createContents(join(folder, "contents"), 64 * 1024 ** 2);
  const tree = createTree();
  tree.addDirectory("usr/bin", META);
  if (bin !== undefined) tree.addSymlink("bin", META, bin);
  return createTreeWriter(tree, contents);
}

test.for([
  ["a directory", undefined],
  ["a link", "usr/bin"],
] as const)(
  "where /bin is %s, the stand-in of an earlier import is no bash of the image",
  async ([, bin]) => {
    await using folder = await makeTempFolder();
    const files = await make(folder.path, bin);
    expect(await giveBash(files, signal)).toBe(true);
    const start = await files.read("/bin/bash");
    expect(await giveBash(files, signal)).toBe(true);
    expect(await files.read("/bin/bash")).toBe(start);
  },
);

test("a bash of the image is kept", async () => {
  await using folder = await makeTempFolder();
  const files = await make(folder.path);
  await files.write("/bin/bash", "#!/bin/other", { mode: 0o755 });
  expect(await giveBash(files, signal)).toBe(false);
  expect(await files.read("/bin/bash")).toBe("#!/bin/other");
});
