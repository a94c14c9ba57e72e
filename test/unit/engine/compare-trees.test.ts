/** What has to go from one tree and to come from another one, found in pieces of their lists. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { compareTrees } from "../../../src/engine/storage/compare-trees.ts";
import { createRandom, printedSeed } from "../../support/random.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

interface Facts {
  readonly what: string;
  readonly changedAt: string;
  readonly inode: string;
}

type Tree = ReadonlyMap<string, Facts>;

async function compare(from: Tree, to: Tree, hasInodes: boolean) {
  return compareUpTo(undefined, [from, to], hasInodes);
}

async function compareUpTo(
  maxKnown: number | undefined,
  [from, to]: readonly [Tree, Tree],
  hasInodes: boolean,
) {
  await using temp = await makeTempFolder();
  const at = (name: string) => join(temp.path, name);
  const paths = { from: at("from"), to: at("to"), gone: at("gone"), changed: at("changed") };
  await writeFile(paths.from, toText(from), "latin1");
  await writeFile(paths.to, toText(to), "latin1");
  await compareTrees({ ...paths, hasInodes }, maxKnown);
  return { gone: await read(paths.gone), changed: await read(paths.changed) };
}

async function read(path: string): Promise<string[]> {
  return (await readFile(path, "latin1")).split("\0").slice(0, -1);
}

function toText(tree: Tree): string {
  return [...tree]
    .map(([path, { what, changedAt, inode }]) => `${path}\0${what}\0${changedAt}\0${inode}\0`)
    .join("");
}

const folder = (inode = "1", changedAt = "1"): Facts => ({ what: "d 755 0 0", changedAt, inode });
const file = (inode = "1", changedAt = "1", size = 0): Facts => ({
  what: `f 644 0 0 ${size}`,
  changedAt,
  inode,
});

test("what is missing goes with its folder, and what became something else goes first", async () => {
  const from = new Map([
    ["", folder()],
    ["kept", folder()],
    ["kept/lost", file()],
    ["lost", folder()],
    ["lost/inside", file()],
    ["turned", folder()],
    ["turned/inside", file()],
    ["became", file()],
  ]);
  const to = new Map([
    ["", folder()],
    ["kept", folder()],
    ["turned", file()],
    ["became", folder()],
    ["became/odd \n\xff", file()],
  ]);
  expect(await compare(from, to, true)).toEqual({
    gone: ["./kept/lost", "./lost", "./turned", "./became"],
    changed: ["./turned", "./became", "./became/odd \n\xff"],
  });
});

test("a file is the same by its change time or its inode, a folder by its change time", async () => {
  const from = new Map([
    ["", folder("1", "1")],
    ["file", file("1", "1")],
    ["other", file("2", "1")],
    ["folder", folder("3", "1")],
    ["grown", file("4", "1", 1)],
  ]);
  const to = new Map([
    ["", folder("9", "1")],
    ["file", file("1", "2")],
    ["other", file("9", "2")],
    ["folder", folder("3", "2")],
    ["grown", file("4", "1", 2)],
  ]);
  const byInodes = { gone: [], changed: ["./other", "./folder", "./grown"] };
  expect(await compare(from, to, true)).toEqual(byInodes);
  const byTimes = { gone: [], changed: ["./file", "./other", "./folder", "./grown"] };
  expect(await compare(from, to, false)).toEqual(byTimes);
});

test("lists that are longer than what is read at once are compared as a whole", async () => {
  const random = createRandom(printedSeed("compare trees"));
  const long = "n".repeat(3_000);
  const paths = Array.from({ length: 1_000 }, (_path, index) => `${long}${index}`);
  const [from, to] = [new Map([["", folder()]]), new Map([["", folder()]])];
  const [gone, changed]: [string[], string[]] = [[], []];
  for (const path of paths) {
    const fate = random.below(4);
    if (fate !== 0) from.set(path, file("1", "1"));
    if (fate !== 1) to.set(path, file("1", fate === 2 ? "2" : "1"));
    if (fate === 1) gone.push(`./${path}`);
    if (fate === 0 || fate === 2) changed.push(`./${path}`);
  }
  expect(await compare(from, to, false)).toEqual({ gone, changed });
});

test("a first tree with more entries than may be remembered is refused", async () => {
  const from = new Map(["", "a", "b"].map((path) => [path, folder()]));
  await expect(compareUpTo(3, [from, new Map()], true)).resolves.toEqual({ gone: [], changed: [] });
  await expect(compareUpTo(2, [from, new Map()], true)).rejects.toMatchObject({
    code: "failed_precondition",
    message: expect.stringContaining("more than 2 files"),
  });
});
