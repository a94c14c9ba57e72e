/** The disk of layers: measured once each, whatever is missing. */

import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLayerSizes } from "../../../src/sandboxes/template-builds/layer-sizes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("folders have the bytes of their files, and keep them", async () => {
  await using folder = await makeTempFolder();
  const names = Array.from({ length: 40 }, (_, index) => `layer-${index}`);
  for (const name of names) {
    await mkdir(join(folder.path, name, "root"), { recursive: true });
    await writeFile(join(folder.path, name, "root/file"), Buffer.alloc(1024 * 1024, 1));
  }
  const sizes = createLayerSizes(folder.path);
  const bytes = await sizes([...names, "none", "-x"]);
  expect(bytes).toBeGreaterThanOrEqual(40 * 1024 * 1024);
  expect(bytes).toBeLessThan(42 * 1024 * 1024);
  for (const name of names.slice(1)) await rm(join(folder.path, name), { recursive: true });
  expect(await sizes(names)).toBe(bytes);
  expect(await sizes(["layer-0"])).toBeLessThan(1.1 * 1024 * 1024);
});
