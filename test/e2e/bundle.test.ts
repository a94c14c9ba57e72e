/** What is handed out runs on its own, far from the sources: the MCPB bundle and the npm tarball. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { sandboxOf } from "../support/mcp/agent.ts";
import { openRawStdio } from "../support/mcp/raw-stdio.ts";
import { OFFLINE } from "../support/program.ts";
import { makeTempFolder, type TempFolder } from "../support/temp-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const MCPB = join(ROOT, "node_modules/@anthropic-ai/mcpb/dist/cli/cli.js");

async function run(file: string, ...words: string[]): Promise<string> {
  return (await promisify(execFile)(file, words, { cwd: "/" })).stdout;
}

/** Makes Node claim to be of another version, before the program runs. */
function claim(version: string): string {
  const script = `Object.defineProperty(process.versions, "node", { value: "${version}" })`;
  return `data:text/javascript,${encodeURIComponent(script)}`;
}

let folder: TempFolder;
let printed: readonly string[];
const at = (name: string) => join(folder.path, name);

beforeAll(async () => {
  folder = await makeTempFolder();
  const output = await run(process.execPath, join(ROOT, "scripts/bundle.ts"), folder.path);
  printed = output.trim().split("\n");
  const [bundle = "", tarball = ""] = printed;
  await run(process.execPath, MCPB, "unpack", bundle, at("bundle"));
  await run("tar", "-xzf", tarball, "-C", folder.path);
});
afterAll(async () => folder[Symbol.asyncDispose]());

test("the bundle and the tarball hold a program that lists every tool", async () => {
  const expected = await readFile(join(ROOT, "tools.manifest.json"), "utf8");
  const programs = [at("bundle/server/main.js"), at("package/dist/main.js")];
  for (const program of programs) {
    expect(await run(process.execPath, program, "manifest")).toBe(expected);
  }
});

test("the bundle is valid, and its server needs nothing beside it but Node", async () => {
  const words = [MCPB, "validate", at("bundle/manifest.json")];
  expect(await run(process.execPath, ...words)).toContain("Manifest schema validation passes!");
  expect((await readdir(at("bundle"))).toSorted()).toEqual(["LICENSE", "manifest.json", "server"]);
  const built = (await readdir(at("package/dist"))).toSorted();
  expect(built).toEqual(expect.arrayContaining(["egress.mjs", "envd.cjs", "main.js"]));
  expect((await readdir(at("bundle/server"))).toSorted()).toEqual(built);
  const interpreter = await readdir(at("package/dist/interpreter"));
  expect((await readdir(at("bundle/server/interpreter"))).toSorted()).toEqual(
    interpreter.toSorted(),
  );
  const programs = built.filter((name) => name !== "interpreter");
  const texts = programs.map((name) => readFile(at(`bundle/server/${name}`), "utf8"));
  const wanted = (await Promise.all(texts)).flatMap((text) => [
    ...text.matchAll(/(?<!["'`])\brequire\("([^"]+)"\)/g),
  ]);
  const outside = wanted.flatMap(([, name = ""]) =>
    isBuiltin(name) || built.includes(name.replace(/^\.\//, "")) ? [] : [name],
  );
  expect([wanted.length > built.length, outside]).toEqual([true, []]);
});

test.for(["20.1.0", "24.8.0"])("Node %s is told that it is too old", async (version) => {
  const words = ["--import", claim(version), at("bundle/server/main.js"), "stdio"];
  await expect(run(process.execPath, ...words)).rejects.toMatchObject({
    code: 69,
    stderr: `sandbox-mcp: needs Node 24.9 or newer, this is ${version}: install it and start again\n`,
  });
});

/** The chunks that a chunk loads before its first line runs, and those that they load. */
async function loadedBy(name: string, found = new Set<string>()): Promise<Set<string>> {
  const text = await readFile(at(`bundle/server/${name}`), "utf8");
  for (const [, next = ""] of text.matchAll(/^(?:const \w+ = )?require\("\.\/([^"]+)"\)/gm)) {
    if (found.has(next)) continue;
    found.add(next);
    await loadedBy(next, found);
  }
  return found;
}

test("nothing of the program is loaded before the version of Node is known", async () => {
  expect(await loadedBy("main.js")).toEqual(new Set());
  const names = await readdir(at("bundle/server"));
  const chunk = (prefix: string) => names.find((name) => name.startsWith(`${prefix}-`)) ?? prefix;
  for (const early of ["inspector-lock", "compile-cache"]) {
    expect(await loadedBy(chunk(early))).not.toContain(chunk("cli"));
  }
  expect(await loadedBy(chunk("serve"))).toContain(chunk("cli"));
});

interface ToolList {
  readonly tools: readonly { readonly name: string }[];
}

test("the server of the bundle lists the tools of its manifest and runs a process in a sandbox", async () => {
  await using home = await openTestHome();
  const words = [at("bundle/server/main.js"), "stdio", "--home", home.path, "--pool", "0"];
  const env = { PATH: process.env["PATH"] ?? "", ...OFFLINE, SANDBOX_MCP_LOG_LEVEL: "error" };
  const child = spawn(process.execPath, words, { env, stdio: ["pipe", "pipe", "inherit"] });
  const exit = once(child, "exit");
  const raw = openRawStdio(child.stdin, child.stdout);
  await raw.initialize();
  const manifest: ToolList = JSON.parse(await readFile(at("bundle/manifest.json"), "utf8"));
  const listed = await raw.request("tools/list");
  const named = manifest.tools.map(({ name }) => expect.objectContaining({ name }));
  expect(listed["tools"]).toEqual(named);
  const call = async (name: string, input: object) =>
    JSON.stringify(await raw.request("tools/call", { name, arguments: input }));
  const sandbox = sandboxOf(await call("create_sandbox", {}));
  expect(await call("run_process", { ...sandbox, cmd: "id -un" })).toContain("\\nuser\\n");
  child.stdin.end();
  expect(await exit).toEqual([0, null]);
});
