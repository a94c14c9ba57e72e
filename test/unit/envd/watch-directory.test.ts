/** A directory of a watched tree, at any depth that programs can make by moving trees into each other. */

import { expect, test } from "vitest";
import { Directory } from "../../../src/envd/watch/directory.ts";

/** More than a stack has frames, and than a watch has directories. */
const DEPTH = 100_000;

function child(parent: Directory, name: string): Directory {
  const directory = new Directory(parent, name, true);
  parent.children.set(name, directory);
  return directory;
}

test("paths, chains and order of a small tree", () => {
  const root = new Directory(undefined, "", false);
  const a = child(root, "a");
  const b = child(a, "b");
  const c = child(root, "c");
  a.children.set("file", null);
  [root, a, b, c].forEach((directory, index) => (directory.wd = index + 1));
  expect([
    [root.path, b.path, root.pathOf("x"), b.pathOf("x")],
    b.chain.toSorted(),
    root.chain,
    [...root.tree()].map(({ wd }) => wd),
    [b.isWithin(a), b.isWithin(b), b.isWithin(c), a.isWithin(b)],
  ]).toEqual([
    ["", "a/b", "x", "a/b/x"],
    ["1/a", "2/b"],
    [],
    [1, 2, 3, 4],
    [true, true, false, false],
  ]);
});

test("a tree that is deeper than the stack", () => {
  const root = new Directory(undefined, "", false);
  let deepest = root;
  for (let depth = 0; depth < DEPTH; depth += 1) deepest = child(deepest, "d");
  const count = [...root.tree()].length;
  expect([count, deepest.path.length, deepest.chain.length, deepest.isWithin(root)]).toEqual([
    DEPTH + 1,
    2 * DEPTH - 1,
    DEPTH,
    true,
  ]);
});
