/** The secret of a home: made once, and never in place of one that is damaged. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openSecret } from "../../../src/common/secret-file.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("several that open it at once get the one that is kept", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "seed");
  const secrets = await Promise.all([openSecret(path), openSecret(path), openSecret(path)]);
  const kept = await readFile(path);
  expect(secrets).toEqual([kept, kept, kept]);
  expect(kept).toHaveLength(32);
});

test.for([0, 7, 33])("one of %d bytes is refused and stays, with what to do", async (size) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "seed");
  await writeFile(path, Buffer.alloc(size));
  await expect(openSecret(path)).rejects.toMatchObject({
    code: "failed_precondition",
    message: `${path} holds ${size} bytes, not 32`,
    hint: "restore it from a backup, or use another --home",
  });
  expect(await readFile(path)).toHaveLength(size);
});
