import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { storeNote } from "../../../src/commands/service/setting-notes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const OTHER_SIZE = "--store-gb 16: the home has a store of 8 GiB, which keeps its size";

test("a store of another size than was asked for is told", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await mkdir(home);
  const notes = async () => [await storeNote(home, 16), await storeNote(home, 8)];
  expect(await notes()).toEqual([undefined, undefined]);
  await using image = await open(join(home, "store.img"), "w");
  await image.truncate(8 * 1024 ** 3);
  expect(await notes()).toEqual([OTHER_SIZE, undefined]);
  expect(await storeNote(home, undefined)).toBeUndefined();
});
