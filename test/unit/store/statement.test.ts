/** What the oldest supported Node can do with SQL. */

import { glob, readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";

const SOURCE = resolve(import.meta.dirname, "../../../src");

test("no statement has numbered parameters, which Node does not bind before 24.7", async () => {
  const files = await Array.fromAsync(glob(`${SOURCE}/{store,spool,output}/**/*.ts`));
  expect(files.length).toBeGreaterThan(10);
  const texts = await Promise.all(files.map(async (file) => readFile(file, "utf8")));
  expect(texts.join("\n").match(/[ (,]\?\d/g) ?? []).toEqual([]);
});
