/** Merged layers do upon an image what the layers do one after the other. */

import { readdirSync, readFileSync, readlinkSync, statSync, lstatSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { planMerge } from "../../../src/cluster/snapshots/merge-layers.ts";
import { applyLayer, toStream } from "../../support/cluster/pod-images.ts";
import { tar, type TarItem } from "../../support/images/tar-writer.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const BOUNDS = { maxBytes: 1024 * 1024, maxEntries: 1_000, maxPathBytes: 10_000 };
const TIME = 1_700_000_000;
const folder = (path: string, mode = 0o755): TarItem => ({
  path: `${path}/`,
  type: "5",
  mode,
  mtime: TIME,
});
const file = (path: string, data = path): TarItem => ({ path, data, mtime: TIME });
const hard = (path: string, link: string): TarItem => ({ path, type: "1", link });
const soft = (path: string, link: string): TarItem => ({ path, type: "2", link, mtime: TIME });
const end = (path: string): TarItem => ({ path: path.replace(/[^/]*$/, ".wh.$&"), mode: 0 });

async function merge(layers: readonly Buffer[], bounds = BOUNDS): Promise<Buffer> {
  const sources = layers.map((layer) => ({ open: () => Readable.from([layer]) }));
  const parts: Buffer[] = [];
  const write = await planMerge(sources, bounds);
  await write(async (chunk) => void parts.push(chunk));
  return Buffer.concat(parts);
}

/** Each path with what is there; hard links by the first name of their file. */
function describeTree(root: string): string[] {
  const names = new Map<number, string>();
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((path) => {
      const full = join(root, path);
      const stats = lstatSync(full);
      if (stats.isSymbolicLink()) return `${path} -> ${readlinkSync(full)}`;
      if (stats.isDirectory()) return `${path}/ ${(stats.mode & 0o777).toString(8)}`;
      const first = names.get(stats.ino) ?? path;
      names.set(stats.ino, first);
      return `${path} = ${readFileSync(full, "utf8")} of ${first} at ${statSync(full).mtimeMs}`;
    });
}

async function treeOf(layers: readonly Buffer[]): Promise<string[]> {
  await using place = await makeTempFolder();
  const root = join(place.path, "root");
  await mkdir(root);
  for (const layer of layers) await applyLayer(root, toStream(layer));
  return describeTree(root);
}

const IMAGE = tar(
  folder("etc"),
  file("etc/old"),
  folder("etc/deep"),
  file("etc/deep/below"),
  folder("etc/deep/more"),
  file("etc/deep/more/last"),
);

test.for<[string, readonly (readonly TarItem[])[]]>([
  [
    "the newest file counts",
    [
      [folder("etc"), file("etc/a", "1")],
      [folder("etc"), file("etc/a", "2")],
    ],
  ],
  [
    "a removal hides the image",
    [
      [folder("etc"), file("etc/a")],
      [folder("etc"), end("etc/old")],
    ],
  ],
  [
    "a removed directory that is made again is empty",
    [
      [folder("etc"), end("etc/deep")],
      [folder("etc"), folder("etc/deep"), file("etc/deep/new")],
    ],
  ],
  [
    "a directory that was a file meanwhile is empty",
    [
      [folder("etc"), file("etc/deep")],
      [folder("etc"), folder("etc/deep", 0o700)],
    ],
  ],
  [
    "a directory below one that was removed",
    [
      [folder("etc"), end("etc/deep")],
      [folder("etc"), folder("etc/deep")],
      [folder("etc"), folder("etc/deep"), folder("etc/deep/more"), file("etc/deep/more/new")],
    ],
  ],
  [
    "a file that comes back",
    [
      [folder("etc"), end("etc/old")],
      [folder("etc"), file("etc/old", "back")],
    ],
  ],
  [
    "a link in the place of a directory",
    [
      [folder("etc"), folder("etc/deep"), file("etc/deep/x")],
      [folder("etc"), soft("etc/deep", "nowhere")],
    ],
  ],
  [
    "modes of directories are the newest",
    [[folder("etc", 0o711)], [folder("etc", 0o700), file("etc/a")]],
  ],
  [
    "links keep one file",
    [
      [folder("a"), file("a/1"), hard("a/2", "a/1")],
      [folder("a"), file("a/3")],
    ],
  ],
  [
    "a link whose file was replaced keeps the old one",
    [
      [folder("a"), file("a/1", "old"), hard("a/2", "a/1"), hard("a/3", "a/1")],
      [folder("a"), file("a/1", "new")],
    ],
  ],
  [
    "a link whose file was removed",
    [[folder("a"), file("a/1", "old"), folder("b"), hard("b/2", "a/1")], [end("a")]],
  ],
  [
    "a file whose link was replaced",
    [
      [folder("a"), file("a/1", "old"), hard("a/2", "a/1")],
      [folder("a"), file("a/2", "new")],
    ],
  ],
])("%s", async ([, items]) => {
  const layers = items.map((entries) => tar(...entries));
  const merged = await merge(layers);
  expect(await treeOf([IMAGE, merged])).toEqual(await treeOf([IMAGE, ...layers]));
});

test("merged layers are merged again", async () => {
  const layers = [
    tar(folder("etc"), end("etc/deep")),
    tar(folder("etc"), folder("etc/deep"), file("etc/deep/new")),
    tar(folder("etc"), folder("etc/deep"), file("etc/deep/newer")),
    tar(folder("etc"), folder("etc/deep"), end("etc/deep/new")),
  ];
  const merged = await merge([await merge(layers.slice(0, 2)), ...layers.slice(2)]);
  expect(await treeOf([IMAGE, merged])).toEqual(await treeOf([IMAGE, ...layers]));
});

/** Of a few names, so that they meet often: what the daemon of a Pod could have found after each run. */
function randomLayers(seed: number): Buffer[] {
  let state = seed;
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
  const layer = (number: number) => {
    const items: TarItem[] = [folder("etc", 0o700 + random(64))];
    const files: string[] = [];
    for (const path of [
      "etc/deep",
      "etc/old",
      "etc/deep/below",
      "etc/deep/more",
      "etc/deep/more/x",
    ]) {
      const parent = path.slice(0, path.lastIndexOf("/"));
      const hasParent = items.some((item) => item.path === `${parent}/`);
      if (!hasParent) continue;
      const choice = random(5);
      if (choice === 0) items.push(folder(path, 0o700 + random(64)));
      if (choice === 1) items.push(file(path, `${number} ${path}`));
      if (choice === 2) items.push(end(path));
      const [first] = files;
      if (choice === 3 && first !== undefined) items.push(hard(path, first));
      if (choice === 1) files.push(path);
    }
    return tar(...items);
  };
  return Array.from({ length: 2 + random(5) }, (_, number) => layer(number));
}

test("random layers", { timeout: 60_000 }, async () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const layers = randomLayers(seed);
    const merged = await merge(layers);
    expect(await treeOf([IMAGE, merged]), `seed ${seed}`).toEqual(await treeOf([IMAGE, ...layers]));
  }
});

test.for<[string, readonly TarItem[], string]>([
  ["a path that leaves", [file("../out")], "a path"],
  ["a device", [{ path: "null", type: "3" }], "what no snapshot has"],
  ["attributes", [{ ...file("a"), pax: [["SCHILY.xattr.user.a", "b"]] }], "what no snapshot has"],
  ["a link to a file of the image", [hard("a", "etc/old")], "a link without its file"],
])("%s is refused", async ([, items, subject]) => {
  const refusal = { code: "failed_precondition", message: expect.stringContaining(subject) };
  await expect(merge([tar(...items), tar(file("b"))])).rejects.toMatchObject(refusal);
});

test.for<[string, Partial<typeof BOUNDS>, string]>([
  ["files", { maxEntries: 2 }, "2 files"],
  ["names", { maxPathBytes: 5 }, "its names"],
  ["bytes", { maxBytes: 2_048 }, "2048 bytes"],
])("more %s than the bound are refused", async ([, bounds, text]) => {
  const layers = [tar(file("one")), tar(file("two"), file("three"))];
  await expect(merge(layers, { ...BOUNDS, ...bounds })).rejects.toMatchObject({
    code: "resource_exhausted",
    message: expect.stringContaining(text),
  });
});
