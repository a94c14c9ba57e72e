/** The committed inventory of the public clients, against the packages that are here. */

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { compare, readNpm } from "../clients-newest/inventory.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const packageSchema = z.object({ version: z.string(), requests: z.array(z.string()) });

async function committed() {
  const text = await readFile(join(ROOT, "test/clients-newest/inventory.json"), "utf8");
  return z.object({ npm: packageSchema, python: packageSchema }).parse(JSON.parse(text));
}

test("the npm package of the lock file sends what the inventory says", async () => {
  const { npm } = await committed();
  expect(compare(npm.requests, await readNpm(join(ROOT, "node_modules/e2b")))).toEqual([]);
});

test("an older release differs by operations and by fields", async () => {
  const { npm } = await committed();
  const changes = compare(await readNpm(join(ROOT, "node_modules/e2b-v1")), npm.requests);
  expect(changes).toContain("+ POST /v2/sandboxes");
  expect(changes.filter((line) => /^[-+] \w+\.\w+$/.test(line)).length).toBeGreaterThan(0);
});

test("both packages name operations, headers, fields and messages", async () => {
  const { npm, python } = await committed();
  expect(npm.requests).toContain("message name StreamInputRequest");
  const expected = ["POST /v2/sandboxes header Idempotency-Key", "EntryInfo.is_symlink = 12"];
  expect(python.requests).toEqual(expect.arrayContaining(expected));
});
