/** Files are joined by their own names, whatever bytes those have. */

import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fromSystemBytes } from "../../../src/common/file-names.ts";
import { concatenate } from "../../../src/envd/files/concatenate.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a name that is not UTF-8 is not that of a file with a replacement character", async () => {
  await using folder = await makeTempFolder();
  const source = Buffer.concat([Buffer.from(join(folder.path, "part")), Buffer.of(0xff)]);
  await writeFile(source, "own");
  await writeFile(join(folder.path, "part\uFFFD"), "other");
  await writeFile(join(folder.path, "first"), "first and ");
  const target = join(folder.path, "target");
  await using file = await open(target, "w");
  const sources = [join(folder.path, "first"), fromSystemBytes(source)];
  await concatenate(sources, file, new AbortController().signal);
  expect(await readFile(target, "utf8")).toBe("first and own");
});
