/** A file that is written durably has the mode that was asked for, whatever the umask and what was there. */

import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { draftOf, writeDurably } from "../../../src/common/files.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test.for([
  // No umask leaves it as it is but one of zero.
  { mode: 0o666, left: undefined },
  // A process that was killed has left a draft of another mode.
  { mode: 0o644, left: 0o600 },
  { mode: 0o600, left: 0o644 },
])("mode $mode, of a draft $left", async ({ mode, left }) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "file");
  if (left !== undefined) await writeFile(draftOf(path), "before", { mode: left });
  await writeDurably(path, "text", mode);
  expect((await stat(path)).mode & 0o777).toBe(mode);
  expect(await readFile(path, "utf8")).toBe("text");
});
