/** Imports of JavaScript cells: found where they are code, and nowhere else. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  startInterpreterServer,
  textOf,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

const TEXT_OF_LINES = "const lines = `a\nimport x from 'y'\nimport('z')`; lines.length";

test.for([
  ["a template literal", TEXT_OF_LINES, "31"],
  ["a text", `"import('x') import y from 'z'".length`, "29"],
  ["a text in lines", `'a\\\nimport b from "c"'.length`, "18"],
  ["a comment", "/*\nimport x from 'y'\n*/ // import('z')\n4", "4"],
  ["a regular expression", "/import\\(/.test('import(x)')", "true"],
  ["a named group", "'import'.match(/(?<import>i)/u).groups.import", "i"],
  ["a property", "({ import: 5 }).import", "5"],
  ["a method", "({ import(x) { return x + 1; } }).import(5)", "6"],
  [
    "a private method",
    "new (class { #import(x) { return x; } m() { return this.#import(7); } })().m()",
    "7",
  ],
  ["a name with it", "const important = 8, reimport = 1; important + reimport", "9"],
])("the word in %s is no import", async ([, code = "", text]) => {
  expect(textOf(await server.run(code, { language: "js" }), "result")).toBe(text);
});

test.for([
  ["a template literal", '`${(await import("node:path")).sep}`', "/"],
  ["behind a comment", '(await import /* "( */ ("node:path")).sep', "/"],
  ["behind another statement", '1; import { sep } from "node:path"; sep', "/"],
  ["without spaces", 'import{sep as s}from"node:path";s', "/"],
  [
    "with comments",
    'import /* "a" */ { // from "b"\n sep /* , */ as from } from "node:path"; from',
    "/",
  ],
  [
    "of a default and a namespace",
    'import one, * as all from "node:path"; one.sep + all.sep',
    "//",
  ],
  ["of a text's name", 'import { "sep" as t, default as d } from "node:path"; t + d.sep', "//"],
  ["for its effect", '7; import "node:path"', "7"],
  ["with attributes", 'import p from "data:application/json,[5]" with { type: "json" }; p[0]', "5"],
  [
    "of a call with attributes",
    '(await import("data:application/json,[6]", { with: { type: "json" } })).default[0]',
    "6",
  ],
  [
    "with types",
    'import type { X } from "nothing"; import { sep as u } from "node:path"; const y: string = u; y',
    "/",
  ],
  [
    "in a block of many lines",
    'import {\n  sep,\n} from "node:path";\nnew Error().stack.match(/anonymous>:(\\d)/)[1]',
    "4",
  ],
])("an import is found: %s", async ([, code = "", text]) => {
  expect(textOf(await server.run(code, { language: "js" }), "result")).toBe(text);
});

test("packages are those of the context's folder, also such that are for import alone", async () => {
  await using folder = await makeTempFolder();
  const place = join(folder.path, "node_modules/alone");
  await mkdir(place, { recursive: true });
  const facts = { name: "alone", type: "module", exports: { import: "./index.js" } };
  await writeFile(join(place, "package.json"), JSON.stringify(facts));
  await writeFile(join(place, "index.js"), "export default 21;");
  const made = await server.call("POST", "/contexts", { language: "js", cwd: folder.path });
  const options = { context_id: String(JSON.parse(made.text).id) };
  const cell = 'import one from "alone"; one + (await import("alone")).default';
  expect(textOf(await server.run(cell, options), "result")).toBe("42");
  expect(textOf(await server.run('import none from "none"', options), "error")).toBe(
    `Cannot find package 'none' imported from ${folder.path}/cell.js`,
  );
});

test("an import that only the next cell uses is there", async () => {
  await server.run('import { EOL } from "node:os"; const typed: number = 1;', { language: "ts" });
  expect(textOf(await server.run("EOL.length", { language: "ts" }), "result")).toBe("1");
});

test("a fault of the cell is told with its place", async () => {
  const lines = await server.run('import { sep } from "node:path";\nconst const = 1', {
    language: "js",
  });
  expect(lines.find(({ type }) => type === "error")).toMatchObject({ name: "SyntaxError" });
});

test("what only modules have is told as that", async () => {
  const lines = await server.run("import.meta.url", { language: "js" });
  expect(textOf(lines, "error")).toBe("Cannot use 'import.meta' outside a module");
});

test.for([
  ["imports without an end", `import ${" \n".repeat(500_000)}`],
  ["quotes without an end", `import ${`/* " */`.repeat(200_000)}`],
  ["imports in comments", `/*${'import x from "y"\n'.repeat(200_000)}*/ 1`],
  ["calls", 'import("x");'.repeat(10_000)],
  ["statements", 'import "node:path";'.repeat(5_000)],
  ["blank lines", "\n".repeat(1_000_000)],
])("a hostile cell ends soon: %s", { timeout: 20_000 }, async ([, code = ""]) => {
  const lines = await server.run(code, { language: "js" });
  expect(lines.at(-1)).toEqual({ type: "end_of_execution" });
  expect(textOf(await server.run("40 + 2", { language: "js" }), "result")).toBe("42");
});

test("a cell of too many imports says so", async () => {
  const lines = await server.run('import "node:path";'.repeat(2_000), { language: "js" });
  expect(textOf(lines, "error")).toBe("the cell has too many imports, or is too large for them");
});
