/** Every link, every path and every name in a file that a document names exists; its tables are whole. */

import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const MIN_DOCUMENTS = 25;
const MIN_LINKS = 30;
const MIN_PATHS = 120;

const LINK_PATTERN = /\]\((?!https?:)([^)\s]+)\)/g;
/** A file of the source, the tests or the tools in backticks; the folder may be left out. */
const PATH_PATTERN = /`((?:[\w.-]+\/)*[\w-]+(?:\.test)?\.(?:ts|pl|sh|cjs|mjs))`/g;
/** A name of the code, which has a capital, and the file that a document gives for it. */
const NAME_PATTERN =
  /`([A-Za-z]\w*[A-Z]\w*)`(?:,? (?:in|of)(?: the)? | \()`((?:[\w.-]+\/)+[\w-]+(?:\.test)?\.ts)`/g;
const MIN_NAMES = 20;
const MIN_ROWS = 400;
/** What the build writes. */
const BUILT = ["envd.cjs", "envd-starter.cjs", "egress.mjs", "main.js"];

async function listDocuments(): Promise<string[]> {
  const names = await readdir(join(ROOT, "docs"), { recursive: true });
  const documents = names.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`);
  return ["README.md", "SECURITY.md", ...documents];
}

async function listSources(): Promise<ReadonlySet<string>> {
  const folders = await Promise.all(
    ["src", "test", "bench", "scripts"].map(async (folder) => {
      const names = await readdir(join(ROOT, folder), { recursive: true });
      return names.map((name) => join(folder, name));
    }),
  );
  return new Set(folders.flat());
}

/** The anchor of a heading, as the usual renderers make it. */
function toAnchor(heading: string): string {
  const plain = heading.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "");
  return plain.trim().toLowerCase().replaceAll(/\s/g, "-");
}

async function findDeadLinks(path: string, text: string): Promise<string[]> {
  const links = [...text.matchAll(LINK_PATTERN)].map(([, link = ""]) => link);
  const faults = await Promise.all(
    links.map(async (link) => {
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? path : relative(ROOT, resolve(ROOT, dirname(path), file));
      if (!existsSync(join(ROOT, target))) return [`${path}: ${link} leads nowhere`];
      if (anchor === undefined) return [];
      const other = target === path ? text : await readFile(join(ROOT, target), "utf8");
      const anchors = [...other.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => heading);
      return anchors.map(toAnchor).includes(anchor) ? [] : [`${path}: ${link} has no heading`];
    }),
  );
  return faults.flat();
}

function findDeadPaths(path: string, text: string, sources: ReadonlySet<string>): string[] {
  const baseNames = new Set([...sources].map((name) => basename(name)));
  const named = [...text.matchAll(PATH_PATTERN)].map(([, name = ""]) => name);
  const isThere = (name: string) =>
    sources.has(name) ||
    sources.has(`src/${name}`) ||
    BUILT.includes(name) ||
    (!name.includes("/") && baseNames.has(name));
  return named.filter((name) => !isThere(name)).map((name) => `${path}: no file ${name}`);
}

async function readDocuments(): Promise<{ readonly path: string; readonly text: string }[]> {
  const paths = await listDocuments();
  return Promise.all(
    paths.map(async (path) => ({ path, text: await readFile(join(ROOT, path), "utf8") })),
  );
}

test("every link of a document leads to a file and a heading", async () => {
  const documents = await readDocuments();
  expect(documents.length).toBeGreaterThan(MIN_DOCUMENTS);
  const links = documents.flatMap(({ text }) => [...text.matchAll(LINK_PATTERN)]);
  expect(links.length).toBeGreaterThan(MIN_LINKS);
  const faults = await Promise.all(
    documents.map(async ({ path, text }) => findDeadLinks(path, text)),
  );
  expect(faults.flat()).toEqual([]);
});

test("every file that a document names exists", async () => {
  const documents = await readDocuments();
  const sources = await listSources();
  const paths = documents.flatMap(({ text }) => [...text.matchAll(PATH_PATTERN)]);
  expect(paths.length).toBeGreaterThan(MIN_PATHS);
  expect(documents.flatMap(({ path, text }) => findDeadPaths(path, text, sources))).toEqual([]);
});

test("a dead link, a missing heading and a missing file are found", async () => {
  const text = "[a](adr/none.md) [b](security.md#none) [c](security.md#limits) `none.ts` `cli.ts`";
  expect(await findDeadLinks("docs/x.md", text)).toHaveLength(2);
  expect(findDeadPaths("docs/x.md", text, await listSources())).toEqual([
    "docs/x.md: no file none.ts",
  ]);
});

/** How many cells each row of a table has; a bar in a cell is escaped. */
function cellsOf(row: string): number {
  return row.replaceAll("\\|", "").split("|").length - 2;
}

test("a row of a table has as many cells as the table's head", async () => {
  const documents = await readDocuments();
  const tables = documents.flatMap(({ path, text }) =>
    [...text.matchAll(/^\|.*\|$(?:\n\|.*\|$)*/gm)].map(([table]) => ({ path, table })),
  );
  const rows = tables.flatMap(({ path, table }) => {
    const [head = "", ...rest] = table.split("\n");
    return rest.map((row) => ({ path, row, isWhole: cellsOf(row) === cellsOf(head) }));
  });
  expect(rows.length).toBeGreaterThan(MIN_ROWS);
  expect(rows.filter(({ isWhole }) => !isWhole)).toEqual([]);
});

/** A file that declares the name: as a value, a type, or a field. */
async function declares(path: string, name: string): Promise<boolean> {
  const declaration = new RegExp(
    `(?:function|const|let|class|interface|type) ${name}\\b|^ +(?:readonly |async )?${name}\\??[:(]`,
    "m",
  );
  const file = [path, join("src", path)].find((each) => existsSync(join(ROOT, each)));
  return file !== undefined && declaration.test(await readFile(join(ROOT, file), "utf8"));
}

test("every name is declared in the file that a document gives for it", async () => {
  const documents = await readDocuments();
  const claims = documents.flatMap(({ path, text }) =>
    [...text.matchAll(NAME_PATTERN)].map(([, name = "", file = ""]) => ({ path, name, file })),
  );
  expect(claims.length).toBeGreaterThan(MIN_NAMES);
  const faults = claims.map(async ({ path, name, file }) =>
    (await declares(file, name)) ? [] : [`${path}: no ${name} in ${file}`],
  );
  expect((await Promise.all(faults)).flat()).toEqual([]);
});

/** The pages to which a document links, without those of itself. */
function pagesLinkedBy({ path, text }: { readonly path: string; readonly text: string }): string[] {
  const links = [...text.matchAll(LINK_PATTERN)].map(([, link = ""]) => link.split("#")[0] ?? "");
  const pages = links.filter((link) => link !== "").map((link) => join(dirname(path), link));
  return pages.filter((page) => page !== path);
}

test("another document leads to every page", async () => {
  const documents = await readDocuments();
  const linked = new Set(documents.flatMap(pagesLinkedBy));
  const pages = documents.map(({ path }) => path).filter((path) => path !== "README.md");
  expect(pages.filter((path) => !linked.has(path))).toEqual([]);
});
