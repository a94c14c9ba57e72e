/** The README's table of settings: each flag and each variable of the program, and no other. */

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { describeFlags } from "../../src/flags.ts";
import { listSettings } from "../../src/settings.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const FLAG_PATTERN = /`--([a-z-]+)/g;
const VARIABLE_PATTERN = /`((?:SANDBOX_MCP|E2B)_[A-Z_0-9]+)`/g;
const MIN_SETTINGS = 40;

/** The first two columns of the table: flags and variables. */
async function readTable(): Promise<{ readonly flags: string; readonly variables: string }> {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const [, section = ""] = readme.split("## Settings");
  const [table = ""] = section.split("\n## ");
  // A choice of values is written with an escaped bar.
  const rows = table
    .replaceAll("\\|", "")
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) => line.split("|"));
  return {
    flags: rows.map(([, flags = ""]) => flags).join("\n"),
    variables: rows.map(([, , variables = ""]) => variables).join("\n"),
  };
}

function namesIn(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = ""]) => name).toSorted();
}

test("each flag and each variable is in the table once", async () => {
  const settings = listSettings().map(([, setting]) => setting);
  expect(settings.length).toBeGreaterThan(MIN_SETTINGS);
  const { flags, variables } = await readTable();
  expect(namesIn(flags, FLAG_PATTERN)).toEqual(
    settings.flatMap(({ flag }) => flag ?? []).toSorted(),
  );
  expect(namesIn(variables, VARIABLE_PATTERN)).toEqual(
    settings.flatMap(({ environment }) => environment ?? []).toSorted(),
  );
});

test("the help names each flag, and the letter of those that have one", () => {
  const lines = describeFlags();
  expect(lines.map((line) => /^ {2}--([a-z-]+)/.exec(line)?.[1])).toEqual(
    listSettings().flatMap(([, { flag }]) => flag ?? []),
  );
  expect(lines.filter((line) => /^ {2}--[a-z]+, -[a-z] /.test(line))).toEqual([
    "  --file, -f               template build: the Dockerfile; by default that of the directory",
  ]);
});
