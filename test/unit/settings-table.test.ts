/** The README's table of settings: each flag and each variable of the program, and no other. */

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { findCommand, helpText, listForms } from "../../src/commands/index.ts";
import { z } from "../../src/common/schema.ts";
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
    .replaceAll("\\|", " ")
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

test("a flag that lists its words in the table lists those that it takes", async () => {
  const { flags } = await readTable();
  const listed = [...flags.matchAll(/`--([a-z-]+) ([a-z]+(?: [a-z]+)+)`/g)];
  expect(listed.length).toBeGreaterThan(6);
  const taken = new Map(listSettings().map(([, { flag, schema }]) => [flag, schema]));
  const faults = listed.filter(([, flag = "", words = ""]) => {
    const schema = taken.get(flag);
    return schema instanceof z.ZodEnum && schema.options.join(" ") !== words;
  });
  expect(faults.map(([cell]) => cell)).toEqual([]);
});

/** `template show NAME` of a cell, where the program is named once. */
async function readForms(): Promise<string[]> {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const [, section = ""] = readme.split("## Commands");
  const rows = section.split("\n## ")[0]?.split("\n") ?? [];
  const cells = rows.filter((line) => line.startsWith("| `")).map((line) => line.split(" | ")[0]);
  const names = [...cells.join("\n").matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
  return names.map((name) => name.replace(/^sandbox-mcp ?/, "")).filter((name) => name !== "");
}

test("each form of each command is in the README's table, and in its help", async () => {
  expect((await readForms()).toSorted()).toEqual(listForms().toSorted());
  for (const form of listForms()) {
    const [name = ""] = form.split(" ");
    expect(helpText(findCommand(name))).toContain(`\n  sandbox-mcp ${form} [FLAGS]\n`);
  }
});

/** The flags in the help of a command, or of an action of it. */
function flagsIn(command: string, action?: string): string[] {
  const help = helpText(findCommand(command), action);
  return [...help.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, flag = ""]) => flag);
}

test("the summaries of the commands are in one column", () => {
  const [, table = ""] = helpText().split("[COMMAND] [FLAGS]\n");
  const [rows = ""] = table.split("\n  Without a command");
  const columns = rows.split("\n").map((row) => / {2,}(?=\S)/.exec(row.slice(2)));
  expect(columns.length).toBe(8);
  const places = columns.map((gap) => (gap?.index ?? 0) + (gap?.[0].length ?? 0));
  expect(new Set(places).size).toBe(1);
});

test("the help of a flag that one engine alone reads begins with that engine, as its row does", async () => {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const rows = readme.split("\n").filter((line) => / \| +engine kubernetes: /.test(line));
  const flags = rows.flatMap((row) => namesIn(row.split(" | ")[0] ?? "", FLAG_PATTERN));
  const helps = listSettings().map(([, { flag, help }]) => ({ flag, help }));
  const begins = helps.filter(({ help }) => help.startsWith("engine kubernetes: "));
  expect(begins.flatMap(({ flag }) => flag ?? []).toSorted()).toEqual(flags.toSorted());
});

test("each flag is in the help of a command, and those of one command in no other", () => {
  const flags = listSettings().flatMap(([, { flag }]) => flag ?? []);
  const names = ["doctor", "gc", "key", "manifest", "serve", "stdio", "template", "trust"];
  expect(new Set(names.flatMap((name) => flagsIn(name)))).toEqual(new Set(flags));
  expect(names.filter((name) => flagsIn(name).includes("port"))).toEqual(["serve"]);
  expect(names.filter((name) => flagsIn(name).includes("team"))).toEqual(["key"]);
});

test("the help of an action has its forms and the flags that it reads", () => {
  const common = ["engine", "home", "log-level", "log-file", "help", "version"];
  expect(flagsIn("template", "list").toSorted()).toEqual(common.toSorted());
  expect(flagsIn("template", "export").toSorted()).toEqual(common.toSorted());
  const own = ["cpus", "if-missing", "memory-mb", "name", "registry-mirror"];
  expect(flagsIn("template", "pull").toSorted()).toEqual([...common, ...own].toSorted());
  const help = helpText(findCommand("template"), "import");
  expect(help.match(/^ {2}sandbox-mcp .*$/gm)).toEqual([
    "  sandbox-mcp template import FILE [--name N] [FLAGS]",
  ]);
});

test("the help names each flag, and the letter of those that have one", () => {
  const lines = describeFlags();
  expect(lines.map((line) => /^ {2}--([a-z-]+)/.exec(line)?.[1])).toEqual(
    listSettings().flatMap(([, { flag }]) => flag ?? []),
  );
  expect(lines.filter((line) => /^ {2}--[a-z]+, -[a-z] /.test(line))).toEqual([
    "  --file, -f               template build: the Dockerfile; by default that of the directory",
    "  --help, -h               this text",
  ]);
});
