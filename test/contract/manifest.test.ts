/** The committed manifest and the README name the tools as the built program lists them. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { promisify } from "node:util";
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

test("the README's table of tools is what a fresh generation writes", async () => {
  const script = resolve(ROOT, "scripts/readme.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script]);
  expect(plain(stdout)).toBe(plain(await readRoot("README.md")));
});

/** The formatter aligns the columns of tables. */
function plain(text: string): string {
  return text.replaceAll(/ +/g, " ").replaceAll(/-{3,}/g, "---");
}
