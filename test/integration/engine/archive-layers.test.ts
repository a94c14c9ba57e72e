/** What layers show together as one archive; a name that would hide other files is refused. */

import { execFileSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { archiveLayers } from "../../../src/engine/storage/archive-layers.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Archives two layers of which the upper one has these files. */
async function archive(folder: string, names: readonly string[]): Promise<string[]> {
  const [lower, upper, directory] = ["lower", "upper", "work"].map((name) => join(folder, name));
  if (lower === undefined || upper === undefined || directory === undefined) return [];
  for (const path of [lower, join(upper, "etc"), directory]) await mkdir(path, { recursive: true });
  await writeFile(join(lower, "kept"), "kept");
  for (const name of names) await writeFile(join(upper, name), "");
  const file = await archiveLayers({
    layers: [{ root: lower }, { root: upper }],
    directory,
    perlDirectory: PERL_DIRECTORY,
    signal: AbortSignal.timeout(20_000),
  });
  return execFileSync("tar", ["--list", "--file", file], { encoding: "utf8" }).trim().split("\n");
}

test.skipIf(isRootless())("layers become one archive", async () => {
  await using folder = await makeTempFolder();
  expect(await archive(folder.path, ["etc/plain", "etc/x.wh.y"])).toEqual([
    "./",
    "./etc/",
    "./etc/plain",
    "./etc/x.wh.y",
    "./kept",
  ]);
});

test.skipIf(isRootless()).for([".wh.kept", ".wh..wh..opq", "etc/.wh.x\n"])(
  "a file named %j is refused",
  async (name) => {
    await using folder = await makeTempFolder();
    await expect(archive(folder.path, [name])).rejects.toMatchObject({
      code: "failed_precondition",
      message: `an image cannot contain /${name.replace("\n", String.raw`\u000a`)}`,
    });
  },
);
