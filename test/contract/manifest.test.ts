/** The committed manifest and the README name the tools as the built program lists them. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { startProgram } from "../support/program.ts";

const ROOT = resolve(import.meta.dirname, "../..");

async function readRoot(name: string): Promise<string> {
  return readFile(resolve(ROOT, name), "utf8");
}

test("tools.manifest.json is what the built program prints", async () => {
  await using program = startProgram(["manifest"]);
  let printed = "";
  for await (const chunk of program.stdout.setEncoding("utf8")) printed += String(chunk);
  expect(printed).toBe(await readRoot("tools.manifest.json"));
});

test("the README names every listed tool and no other", async () => {
  const text = await readRoot("README.md");
  const [, section = ""] = text.split("## Tools");
  const [table = ""] = section.split("Each sandbox has one resource");
  const named = [...table.matchAll(/`([a-z_]+)`/g)].map(([, name = ""]) => name);
  const manifest: { tools: { name: string }[] } = JSON.parse(await readRoot("tools.manifest.json"));
  expect(named.toSorted()).toEqual(manifest.tools.map((tool) => tool.name));
});

test("the registry's entry has name and version of the package", async () => {
  const about: Record<string, unknown> = JSON.parse(await readRoot("package.json"));
  const entry: unknown = JSON.parse(await readRoot("server.json"));
  expect(entry).toMatchObject({
    name: about["mcpName"],
    version: about["version"],
    packages: [{ identifier: about["name"], version: about["version"] }],
  });
});
