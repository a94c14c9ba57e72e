/** What is handed out runs on its own, far from the sources: the MCPB bundle and the npm tarball. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { makeTempFolder } from "../support/temp-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const MCPB = join(ROOT, "node_modules/@anthropic-ai/mcpb/dist/cli/cli.js");

async function run(file: string, ...words: string[]): Promise<string> {
  return (await promisify(execFile)(file, words, { cwd: "/" })).stdout;
}

test("the bundle and the tarball hold a program that lists every tool", async () => {
  await using folder = await makeTempFolder();
  const at = (name: string) => join(folder.path, name);
  const printed = await run(process.execPath, join(ROOT, "scripts/bundle.ts"), folder.path);
  const [bundle = "", tarball = ""] = printed.trim().split("\n");
  await run(process.execPath, MCPB, "unpack", bundle, at("bundle"));
  await run("tar", "-xzf", tarball, "-C", folder.path);
  const expected = await readFile(join(ROOT, "tools.manifest.json"), "utf8");
  const programs = [at("bundle/server/main.js"), at("package/dist/main.js")];
  for (const program of programs) {
    // oxlint-disable-next-line no-await-in-loop
    expect(await run(process.execPath, program, "manifest")).toBe(expected);
  }
  const manifest: { tools: object[] } = JSON.parse(
    await readFile(at("bundle/manifest.json"), "utf8"),
  );
  const { tools }: { tools: object[] } = JSON.parse(expected);
  expect(manifest.tools).toHaveLength(tools.length);
});
