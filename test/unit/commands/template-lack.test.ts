/** A home without base is of use where it has templates of images. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findTemplateLack } from "../../../src/commands/templates/template-lack.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LACK = { detail: "this system names no Debian release", hint: "use another" };
const IMAGE = `image-${"0a".repeat(16)}-4`;
const BASE = "base-1700000000000-0011aabb/root";

test.for([
  { has: "nothing", folders: [], found: LACK },
  { has: "an image that is pulled", folders: ["image-pull.part"], found: LACK },
  { has: "half of a base", folders: [`${BASE}/usr`], found: LACK },
  { has: "an image", folders: [IMAGE], found: undefined },
  { has: "base", folders: ["etc/passwd", "usr/bin", "usr/lib"].map((p) => `${BASE}/${p}`) },
])("one that has $has", async ({ folders, found }) => {
  await using home = await makeTempFolder();
  for (const folder of folders) {
    await mkdir(join(home.path, "layers", folder), { recursive: true });
  }
  expect(await findTemplateLack(home.path, LACK)).toEqual(found);
});
