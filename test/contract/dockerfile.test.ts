/**
 * The Dockerfile installs what set-up installs, runs the Node that the tests run, and starts the
 * program of the package, which has every program of the source.
 */

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { delimiter, dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const INSTRUCTIONS = ["FROM", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "EXPOSE"];
const EXEC_FORMS = ["ENTRYPOINT", "CMD"];

interface Instruction {
  readonly name: string;
  readonly value: string;
}

async function readInstructions(): Promise<readonly Instruction[]> {
  const text = await readFile(resolve(ROOT, "Dockerfile"), "utf8");
  return text
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => {
      const [name = "", ...words] = line.split(" ");
      return { name, value: words.join(" ") };
    });
}

test("it has only instructions that are known, the last ones in their exec form", async () => {
  const instructions = await readInstructions();
  const names = new Set(instructions.map(({ name }) => name));
  const known = new Set([...INSTRUCTIONS, ...EXEC_FORMS]);
  expect([...names].filter((name) => !known.has(name))).toEqual([]);
  const forms = instructions.filter(({ name }) => EXEC_FORMS.includes(name));
  expect(forms.map(({ value }) => Array.isArray(JSON.parse(value)))).toEqual([true, true]);
});

test("its Debian packages are those of set-up", async () => {
  const setup = await readFile(resolve(ROOT, "scripts/setup.sh"), "utf8");
  const [, command = ""] = /echo "(apt-get update [^"]+)"/.exec(setup) ?? [];
  expect(command).toContain("apt-get install");
  const runs = (await readInstructions()).filter(({ name }) => name === "RUN");
  const installs = runs.map(({ value }) => value).filter((value) => value.includes("apt-get"));
  expect(installs).toEqual([`${command} && rm -rf /var/lib/apt/lists/*`]);
});

test("its Node is the one of the tests", async () => {
  const about: { devDependencies: Record<string, string> } = JSON.parse(
    await readFile(resolve(ROOT, "package.json"), "utf8"),
  );
  const bases = (await readInstructions()).filter(({ name }) => name === "FROM");
  const image = `node:${about.devDependencies["node"]}-bookworm-slim`;
  expect(bases.map(({ value }) => value)).toEqual([`${image} AS build`, image]);
});

test("its entry point is the program of the package, without a shell, and its command is one", async () => {
  const about: { bin: Record<string, string> } = JSON.parse(
    await readFile(resolve(ROOT, "package.json"), "utf8"),
  );
  const forms = (await readInstructions()).filter(({ name }) => EXEC_FORMS.includes(name));
  expect(forms.map(({ name, value }) => [name, JSON.parse(value)])).toEqual([
    ["ENTRYPOINT", Object.keys(about.bin)],
    ["CMD", ["serve"]],
  ]);
});

test("it installs the packed package alone", async () => {
  const instructions = await readInstructions();
  const last = instructions.slice(instructions.findLastIndex(({ name }) => name === "FROM"));
  const copies = last.filter(({ name }) => name === "COPY").map(({ value }) => value);
  expect(copies).toEqual(["--from=build /build/packed /tmp/packed"]);
  expect(last.map(({ value }) => value).join("\n")).toContain("npm install --global");
});

async function listShipped(): Promise<string[]> {
  const words = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const PATH = [dirname(process.execPath), process.env["PATH"]].join(delimiter);
  const { stdout } = await promisify(execFile)("npm", words, {
    cwd: ROOT,
    env: { ...process.env, PATH },
  });
  const [packed]: { files: { path: string }[] }[] = JSON.parse(stdout);
  return packed?.files.map(({ path }) => path) ?? [];
}

/** The files of a directory of the source, as the package names them. */
async function listPrograms(folder: string, to: string): Promise<string[]> {
  const entries = await readdir(resolve(ROOT, "src", folder), { withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => `${to}${name}`);
}

test("the package has each Perl program, each shell program and the interpreter", async () => {
  const shipped = await listShipped();
  const programs = [
    ...(await listPrograms("perl", "dist/")),
    ...(await listPrograms("shell", "dist/")),
    ...(await listPrograms("interpreter", "dist/interpreter/")),
  ];
  expect(programs.length).toBeGreaterThan(30);
  expect(programs.filter((path) => !shipped.includes(path))).toEqual([]);
  expect(shipped).toEqual(expect.arrayContaining(["dist/main.js", "dist/third-party-notices.txt"]));
  const others = shipped.filter((path) => !path.startsWith("dist/"));
  expect(others.toSorted()).toEqual([
    "LICENSE",
    "README.md",
    "package.json",
    "tools.manifest.json",
  ]);
});
