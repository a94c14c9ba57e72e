/** E45: trees of any shape go, as root and as who is not, and nothing outside of them does. */

import { execFile } from "node:child_process";
import { chmod, chown, mkdir, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { removeTree } from "../../../src/common/remove-tree.ts";
import { endChild } from "../../support/end-child.ts";
import { makeDeepTree, makeHostileTrees } from "../../support/hostile/hostile-trees.ts";
import { chooseSeed } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const TREES = IS_WHOLE_RUN ? 1_000 : 60;
const LEVELS = IS_WHOLE_RUN ? 10_000 : 1_200;
/** Enough for a path that is longer than 4,096 bytes. */
const CONTROL_LEVELS = 800;
const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;

describe.each(IS_ROOT ? ["root", "an ordinary user"] : ["an ordinary user"])("as %s", (who) => {
  test(`E45 generated trees are removed as ${who}`, async (context) => {
    await using folder = await makeTempFolder();
    const { trees, decoy } = await prepare(folder.path);
    const seed = chooseSeed();
    const seeds = Array.from({ length: TREES }, (_, index) => seed + index);
    await makeHostileTrees(trees, { seeds, decoy });
    if (who !== "root" && IS_ROOT) await giveAway(folder.path);
    const before = await stat(join(decoy, "file"));
    const faults: string[] = [];
    await actAs(who, async () => {
      for (const name of await readdir(trees)) {
        await removeTree(join(trees, name)).catch((error: unknown) => {
          faults.push(`${name}: ${String(error)}`);
        });
      }
    });
    expect({ faults, left: await readdir(trees) }).toEqual({ faults: [], left: [] });
    expect((await readdir(decoy)).toSorted()).toEqual(["file", "hard"]);
    expect(await stat(join(decoy, "file"))).toMatchObject({ ino: before.ino, mode: before.mode });
    tellCells(context, TREES);
  });

  test(`E45 a tree of ${LEVELS} levels is removed as ${who}`, async () => {
    await using folder = await makeTempFolder();
    const top = join(folder.path, "top");
    await mkdir(top);
    await makeDeepTree(top, LEVELS);
    if (who !== "root" && IS_ROOT) await giveAway(folder.path);
    await actAs(who, async () => removeTree(top));
    expect(await readdir(folder.path)).toEqual([]);
  });
});

test("E45 control: the removal of Node ends at such a tree", async () => {
  await using folder = await makeTempFolder();
  const top = join(folder.path, "top");
  await mkdir(top);
  await makeDeepTree(top, CONTROL_LEVELS);
  await expect(rm(top, { recursive: true })).rejects.toMatchObject({ code: "ENAMETOOLONG" });
  await removeTree(top);
});

test("E45 a link in the place of a tree goes, and not what it leads to", async () => {
  await using folder = await makeTempFolder();
  const { decoy } = await prepare(folder.path);
  await symlink(decoy, join(folder.path, "link"));
  await removeTree(join(folder.path, "link"));
  await removeTree(join(folder.path, "link"));
  expect((await readdir(decoy)).toSorted()).toEqual(["file", "hard"]);
});

test.runIf(IS_ROOT)("E45 what is mounted in a tree stays, and all else goes", async () => {
  await using folder = await makeTempFolder();
  const { decoy } = await prepare(folder.path);
  const top = join(folder.path, "top");
  const at = join(top, "one/two/mounted");
  for (const path of [at, join(top, "other/deep"), join(top, "one/more")]) {
    await mkdir(path, { recursive: true });
  }
  // Of the same disk: its device number tells nothing.
  await run("mount", ["--bind", decoy, at]);
  try {
    await expect(removeTree(top)).rejects.toMatchObject({ code: "EBUSY" });
    expect((await readdir(top, { recursive: true })).toSorted()).toEqual([
      "one",
      "one/two",
      "one/two/mounted",
      "one/two/mounted/file",
      "one/two/mounted/hard",
    ]);
  } finally {
    await run("umount", [at]);
  }
  await removeTree(top);
  expect((await readdir(decoy)).toSorted()).toEqual(["file", "hard"]);
});

test("E45 a tree that somebody fills and turns into links meanwhile takes nothing else along", async () => {
  await using folder = await makeTempFolder();
  const { decoy } = await prepare(folder.path);
  const top = join(folder.path, "top");
  const rounds = IS_WHOLE_RUN ? 200 : 20;
  const writer = execFile("perl", ["-e", RACE, top, decoy]);
  try {
    for (let round = 0; round < rounds; round += 1) {
      // A tree that is never empty may be left; what matters is what else is gone.
      await removeTree(top).catch(() => undefined);
    }
  } finally {
    await endChild(writer);
  }
  // What else is there the writer itself put there, through one of its links.
  expect(await readdir(decoy)).toEqual(expect.arrayContaining(["file", "hard"]));
});

const RACE = String.raw`
my ($top, $decoy) = @ARGV;
while (1) {
  mkdir $top; mkdir "$top/$_" for 1 .. 20;
  for my $n (1 .. 20) {
    mkdir "$top/$n/inner"; open(my $f, '>', "$top/$n/inner/f");
    rename "$top/$n", "$top/m$n"; symlink $decoy, "$top/$n";
    rename "$top/m$n/inner", "$top/i$n"; symlink $decoy, "$top/m$n/inner";
  }
}`;

/** Somebody else's rights for a while; every thread of this process gets them. */
async function actAs(who: string, work: () => Promise<void>): Promise<void> {
  if (who === "root" || !IS_ROOT) return work();
  process.seteuid?.(NOBODY);
  try {
    await work();
  } finally {
    process.seteuid?.(0);
  }
}

async function prepare(folder: string): Promise<{ trees: string; decoy: string }> {
  const [trees, decoy] = [join(folder, "trees"), join(folder, "decoy")];
  for (const path of [trees, decoy]) await mkdir(path);
  for (const name of ["file", "hard"]) await writeFile(join(decoy, name), name);
  await chmod(folder, 0o755);
  return { trees, decoy };
}

async function giveAway(folder: string): Promise<void> {
  await run("chown", ["-R", "-h", `${NOBODY}:${NOBODY}`, folder]);
  await chown(folder, NOBODY, NOBODY);
}
