/** The programs have all that they need, and the licences of the packages that they are made of. */

import { glob, readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const IMPORTED =
  /^(?:import|export)\b(?! type)[^"]*?from "(@[^/"]+\/[^/"]+|[^./"][^/"]*)[^"]*";$/gm;
const HEADING = /^(\S+) \d+\.\d+\.\d+, \S/gm;

async function readPackages(): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for await (const path of glob("src/**/*.ts", { cwd: ROOT })) {
    const text = await readFile(join(ROOT, path), "utf8");
    for (const [, name = ""] of text.matchAll(IMPORTED)) if (!isBuiltin(name)) found.add(name);
  }
  return found;
}

test("the notices have each package that the source imports, with the texts of the licences", async () => {
  const packages = await readPackages();
  expect(packages.size).toBeGreaterThan(8);
  const text = await readFile(join(ROOT, "dist/third-party-notices.txt"), "utf8");
  const named = new Set([...text.matchAll(HEADING)].map(([, name]) => name));
  expect([...packages].filter((name) => !named.has(name))).toEqual([]);
  expect(text).toContain("Copyright (c) Matteo Collina and Undici contributors");
});

test("nothing else is installed with the package", async () => {
  const about: object = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  const kinds = ["dependencies", "optionalDependencies", "peerDependencies"];
  expect(Object.keys(about).filter((name) => kinds.includes(name))).toEqual([]);
});
