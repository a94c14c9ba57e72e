/** The changes of a tree as a layer: applied on the tree that was, they make the tree that is. */

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test, vi } from "vitest";
import { createBaseline } from "../../../src/envd/changes/baseline.ts";
import { streamChanges } from "../../../src/envd/changes/stream.ts";
import { createByteReader } from "../../../src/images/byte-reader.ts";
import { readTar } from "../../../src/images/tar.ts";
import { applyLayer } from "../../support/cluster/pod-images.ts";
import { createRandom, printedSeed, type Random } from "../../support/random.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ROUNDS = 12;
const NAMES = ["a", "b", "ab", "a.b", "é", "n\nl", "x".repeat(120), "\u0001", "-", "zz"];

test("a layer on the tree before is the tree after", { timeout: 60_000 }, async () => {
  const random = createRandom(printedSeed("CHANGES_SEED"));
  for (let round = 0; round < ROUNDS; round += 1) {
    await using folder = await makeTempFolder();
    const [before, after] = [join(folder.path, "before"), join(folder.path, "after")];
    mkdirSync(before);
    for (let count = random.below(60); count > 0; count -= 1) change(random, before);
    execFileSync("cp", ["-a", before, after]);
    const place = { root: after, baselineFile: join(folder.path, "baseline"), leftOut: ["left"] };
    const baseline = createBaseline(place);
    await baseline.take();
    for (let count = random.below(60); count > 0; count -= 1) change(random, after);
    const report = { skipped: 0, torn: 0 };
    await applyLayer(before, streamChanges(place, await baseline.read(), report));
    expect(report).toEqual({ skipped: 0, torn: 0 });
    expect(describeTree(before)).toEqual(describeTree(after));
    const [made, wanted] = [timesOf(before), timesOf(after)];
    expect(made.every((time, at) => Math.abs(time - (wanted[at] ?? 0)) < 1)).toBe(true);
  }
});

test("a file keeps all its names when the directory of one of them is moved", async () => {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "root");
  mkdirSync(join(root, "a"), { recursive: true });
  mkdirSync(join(root, "b"));
  mkdirSync(join(root, "c"));
  writeFileSync(join(root, "a/one"), "1");
  linkSync(join(root, "a/one"), join(root, "b/two"));
  linkSync(join(root, "a/one"), join(root, "c/three"));
  const place = { root, baselineFile: join(folder.path, "baseline"), leftOut: [] };
  const baseline = createBaseline(place);
  await baseline.take();
  renameSync(join(root, "b"), join(root, "moved"));
  expect(await entriesOf(place, baseline)).toEqual([
    "file .wh.b",
    "directory moved",
    "file moved/two",
    "directory a",
    "hardlink a/one",
    "directory c",
    "hardlink c/three",
  ]);
});

test("an untouched tree has no changes", async () => {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "root");
  mkdirSync(join(root, "a"), { recursive: true });
  writeFileSync(join(root, "a/b"), "same");
  const place = { root, baselineFile: join(folder.path, "baseline"), leftOut: [] };
  const baseline = createBaseline(place);
  await baseline.take();
  expect(await entriesOf(place, baseline)).toEqual([]);
});

test("parents come before a change; what is left out, sockets and names of whiteouts do not come", async () => {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "root");
  mkdirSync(join(root, "a/deep"), { recursive: true });
  mkdirSync(join(root, "left"));
  writeFileSync(join(root, "a/deep/old"), "1");
  writeFileSync(join(root, "a/deep/gone"), "1");
  const place = { root, baselineFile: join(folder.path, "baseline"), leftOut: ["left"] };
  const baseline = createBaseline(place);
  await baseline.take();
  writeFileSync(join(root, "a/deep/old"), "22");
  rmSync(join(root, "a/deep/gone"));
  writeFileSync(join(root, "left/new"), "1");
  writeFileSync(join(root, ".wh.trick"), "1");
  const report = { skipped: 0, torn: 0 };
  expect(await entriesOf(place, baseline, report)).toEqual([
    "directory a",
    "directory a/deep",
    "file a/deep/.wh.gone",
    "file a/deep/old",
  ]);
  expect(report).toEqual({ skipped: 1, torn: 0 });
});

test("a directory with the name of a whiteout is left out with all names of files in it", async () => {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "root");
  mkdirSync(join(root, "kept"), { recursive: true });
  writeFileSync(join(root, ".wh.old"), "");
  const place = { root, baselineFile: join(folder.path, "baseline"), leftOut: [] };
  const baseline = createBaseline(place);
  await baseline.take();
  rmSync(join(root, ".wh.old"));
  mkdirSync(join(root, ".wh.kept"));
  writeFileSync(join(root, "file"), "1");
  linkSync(join(root, "file"), join(root, ".wh.kept/name"));
  const report = { skipped: 0, torn: 0 };
  expect(await entriesOf(place, baseline, report)).toEqual(["file file"]);
  expect(report).toEqual({ skipped: 1, torn: 0 });
});

test("the list of the image outlives the daemon and is not made anew", async () => {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "root");
  mkdirSync(root);
  const place = { root, baselineFile: join(folder.path, "baseline"), leftOut: [] };
  await createBaseline(place).take();
  writeFileSync(join(root, "new"), "1");
  const next = createBaseline(place);
  await next.take();
  expect(await entriesOf(place, next)).toEqual(["file new"]);
  expect(lstatSync(place.baselineFile).mode & 0o777).toBe(0o600);
});

test.for([
  ["no list", undefined, "it is not known what the image contained"],
  ["a list of something else", Buffer.alloc(3), "outside buffer bounds"],
  ["an attempt that failed", Buffer.alloc(0), "the list of the image is not complete"],
] as const)("%s: there are no changes", async ([, list, message]) => {
  await using folder = await makeTempFolder();
  const place = { root: folder.path, baselineFile: join(folder.path, "baseline"), leftOut: [] };
  if (list !== undefined) writeFileSync(place.baselineFile, list);
  const read = async () => entriesOf(place, createBaseline(place));
  await expect(read()).rejects.toThrow(message);
});

async function entriesOf(
  place: Parameters<typeof streamChanges>[0],
  baseline: ReturnType<typeof createBaseline>,
  report = { skipped: 0, torn: 0 },
): Promise<string[]> {
  const found: string[] = [];
  const reader = createByteReader(
    Readable.from(streamChanges(place, await baseline.read(), report)),
  );
  await readTar(reader, async (entry) => {
    found.push(`${entry.kind} ${entry.path.replace(/\/$/, "")}`);
    await reader.skip(entry.dataBytes);
  });
  return found;
}

/** One change at random: files, directories, links of both kinds, modes, moves and removals. */
function change(random: Random, root: string): void {
  const paths = pathsOf(root);
  const directories = ["", ...paths.filter((path) => lstatSync(join(root, path)).isDirectory())];
  const files = paths.filter((path) => lstatSync(join(root, path)).isFile());
  const target = join(root, random.pick(directories), random.pick(NAMES));
  const known = random.pick(["", ...paths]);
  const file = random.pick(["", ...files]);
  const works: (() => void)[] = [
    () => clear(target, () => writeFileSync(target, "x".repeat(random.below(5_000)))),
    () => clear(target, () => symlinkSync(random.pick(["a", "/b", "y".repeat(150)]), target)),
    () => existsSync(target) || mkdirSync(target),
    () => existsSync(target) || mkdirSync(target),
    () => file !== "" && clear(target, () => linkSync(join(root, file), target)),
    () => file !== "" && writeFileSync(join(root, file), "y".repeat(random.below(2_000_000))),
    () => file !== "" && truncateSync(join(root, file), random.below(3_000_000)),
    () => file !== "" && chmodSync(join(root, file), 0o400 + random.below(0o377)),
    () => known !== "" && rmSync(join(root, known), { recursive: true }),
    () => known !== "" && clear(target, () => renameSync(join(root, known), target)),
    () => known !== "" && lutimesSync(join(root, known), 1, random.below(1_000_000_000)),
  ];
  try {
    random.pick(works)();
  } catch (error) {
    // A directory into itself, or a file that the removal of the target took along.
    if (!/EEXIST|EINVAL|ELOOP|ENAMETOOLONG|ENOENT|ENOTEMPTY|ENOTDIR|EISDIR/.test(String(error)))
      throw error;
  }
}

function clear(target: string, work: () => void): void {
  rmSync(target, { recursive: true, force: true });
  work();
}

function pathsOf(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: "utf8" }).toSorted();
}

function describeTree(root: string): unknown[] {
  return pathsOf(root).map((path) => {
    const stats = lstatSync(join(root, path));
    const { mode, uid, gid, nlink } = stats;
    return {
      path,
      mode,
      uid,
      gid,
      nlink: stats.isFile() ? nlink : 1,
      data: stats.isFile() && readFileSync(join(root, path)).toString("latin1"),
      target: stats.isSymbolicLink() && readlinkSync(join(root, path)),
    };
  });
}

/** In milliseconds; an archive has them in microseconds. */
function timesOf(root: string): number[] {
  return pathsOf(root).map((path) => lstatSync(join(root, path)).mtimeMs);
}

test("directories that wait are never moved: of many in one, that would take their square", async () => {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "root");
  for (const name of ["a", "b", "c", "d"]) mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, "a/one"), "1");
  linkSync(join(root, "a/one"), join(root, "b/two"));
  const place = { root, baselineFile: join(folder.path, "baseline"), leftOut: [] };
  const baseline = createBaseline(place);
  await baseline.take();
  linkSync(join(root, "a/one"), join(root, "d/three"));
  rmSync(join(root, "b/two"));
  using unshift = vi.spyOn(Array.prototype, "unshift");
  const report = { skipped: 0, torn: 0 };
  let bytes = 0;
  for await (const piece of streamChanges(place, await baseline.read(), report)) {
    bytes += piece.length;
  }
  expect(bytes).toBeGreaterThan(0);
  expect(unshift).not.toHaveBeenCalled();
});
