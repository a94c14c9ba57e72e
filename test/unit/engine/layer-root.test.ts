/** A program may close its own `/`; the layer of what it did is told from one that lost modes later. */

import { chmod, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeLayer } from "../../../src/engine/storage/layers.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test.for([
  { made: 0o1700, kept: 0o1705 },
  { made: 0o711, kept: 0o715 },
  { made: 0o755, kept: 0o755 },
])("a layer whose root was made with $made is open", async ({ made, kept }) => {
  await using folder = await makeTempFolder();
  const layer = await makeLayer(join(folder.path, "own"), async (draft) => {
    await mkdir(join(draft, "root"));
    await chmod(join(draft, "root"), made);
  });
  expect((await stat(layer.root)).mode & 0o7777).toBe(kept);
});
