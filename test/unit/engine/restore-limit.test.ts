/** How long a restore may take: one that hangs ends long before a large one on a slow disk. */

import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { restoreLimitMs } from "../../../src/engine/gvisor/run-sentry.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MEGABYTE = 1_000_000;

test("a restore has two minutes and the time that a slow disk takes for its image", async () => {
  await using image = await makeTempFolder();
  expect(await restoreLimitMs(join(image.path, "none"))).toBe(120_000);
  const pages = join(image.path, "pages.img");
  await writeFile(join(image.path, "checkpoint.img"), Buffer.alloc(MEGABYTE));
  await writeFile(pages, "");
  await truncate(pages, 199 * MEGABYTE);
  expect(await restoreLimitMs(image.path)).toBe(140_000);
  await truncate(pages, 100_000 * MEGABYTE);
  expect(await restoreLimitMs(image.path)).toBe(300_000);
});
