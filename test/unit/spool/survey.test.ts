/** What a survey of all spools reads again. */

import { appendFile, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSurvey, END_FILE, locationOf } from "../../../src/spool/folders.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a spool that ended is read once, one that is written each time", async () => {
  await using root = await makeTempFolder();
  const [written = "", ended = ""] = await Promise.all(
    ["p_1", "p_2"].map(async (name) => {
      const spool = { name, createdAtMs: 1, owner: "0123456789abcdef" };
      const { folder } = locationOf(root.path, "i1", spool);
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, "0000000000000000"), "1234");
      return folder;
    }),
  );
  const ending = JSON.stringify({ endedAtMs: 7 });
  await writeFile(join(ended, END_FILE), ending);
  const survey = createSurvey(root.path);
  const look = async () =>
    Object.fromEntries(
      (await survey()).map(({ place, bytes, endedAtMs }) => [place.folder, [bytes, endedAtMs]]),
    );
  const asEnded = [4 + ending.length, 7];
  expect(await look()).toEqual({ [written]: [4, undefined], [ended]: asEnded });
  for (const folder of [written, ended]) await appendFile(join(folder, "0000000000000000"), "5");
  expect(await look()).toEqual({ [written]: [5, undefined], [ended]: asEnded });
  await writeFile(join(written, END_FILE), ending);
  expect(await look()).toEqual({ [written]: [5 + ending.length, 7], [ended]: asEnded });
  await rm(ended, { recursive: true });
  expect(Object.keys(await look())).toEqual([written]);
});
