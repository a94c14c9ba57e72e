/** The Dockerfile installs what set-up installs, runs the Node that the tests run, and parses. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
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
