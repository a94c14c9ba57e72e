import { join } from "node:path";
import { expect, test } from "vitest";
import { syncMounts } from "../../../src/engine/storage/flush-mounts.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("each that fails is told with its reason, whatever its name, and the others are synced", async () => {
  await using folder = await makeTempFolder();
  const lost = [join(folder.path, 'a\n"$(b)'), join(folder.path, "-f")];
  const failed = await syncMounts([lost[0] ?? "", folder.path, lost[1] ?? ""]);
  expect([...failed.keys()]).toEqual(lost);
  expect(failed.get(lost[1] ?? "")).toContain("No such file or directory");
});

test("nothing is done for none", async () => {
  expect((await syncMounts([])).size).toBe(0);
});
