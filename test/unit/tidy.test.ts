/** Holds the source to its written borders: who may import whom, and a header in every file. */

import { readdir, readFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const SOURCE = resolve(import.meta.dirname, "../../src");
const MIN_FILES = 20;

/** A room may import these rooms and files; what is not here is forbidden. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  common: [],
  gen: [],
  wire: ["common", "gen"],
  rpc: ["common", "gen"],
  client: ["common", "gen", "wire", "rpc"],
  output: ["common", "wire", "client", "spool"],
  mcp: ["common", "wire", "client", "spool", "output"],
  dev: ["common", "mcp"],
  envd: ["common", "gen", "wire", "rpc"],
  egress: ["common"],
  store: ["common"],
  spool: ["common"],
  engine: ["common", "egress"],
  images: ["common", "engine"],
  sandboxes: ["common", "wire", "client", "store", "engine", "images"],
  cluster: ["common", "wire", "store", "engine", "images", "sandboxes"],
  control: ["common", "wire", "sandboxes"],
  gateway: ["common", "wire", "sandboxes"],
  listener: ["common", "wire"],
  commands: [
    "package.json",
    "config.ts",
    "flags.ts",
    "common",
    "wire",
    "rpc",
    "client",
    "mcp",
    "dev",
    "store",
    "spool",
    "engine",
    "images",
    "sandboxes",
    "cluster",
    "control",
    "gateway",
    "listener",
  ],
  "setting-values.ts": ["common", "egress", "images"],
  "kubernetes-settings.ts": ["common", "setting-values.ts"],
  "settings.ts": ["common", "kubernetes-settings.ts", "setting-values.ts"],
  "flags.ts": ["common", "setting-values.ts", "settings.ts"],
  "cluster-config.ts": ["settings.ts"],
  "unused-settings.ts": ["common", "kubernetes-settings.ts", "settings.ts"],
  "config.ts": ["common", "cluster-config.ts", "flags.ts", "settings.ts", "unused-settings.ts"],
  "cli.ts": ["common", "config.ts", "commands"],
  "compile-cache.ts": ["common"],
  "inspector-lock.ts": [],
  "main.ts": ["cli.ts", "compile-cache.ts", "inspector-lock.ts"],
};

/** Packages and modules that only these rooms may use. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  zod: ["common"],
  yaml: ["commands"],
  pino: ["common"],
  "@bufbuild/protobuf": ["gen", "rpc", "client", "envd"],
  "@connectrpc/connect": ["rpc", "client", "envd"],
  "@connectrpc/connect-node": ["envd"],
  "@modelcontextprotocol/server": ["mcp", "dev"],
  "@modelcontextprotocol/node": ["mcp", "dev"],
  undici: ["client", "gateway"],
  "@peculiar/asn1-schema": ["listener"],
  "@peculiar/asn1-x509": ["listener"],
  "node:child_process": ["envd", "engine"],
  "node:sqlite": ["store"],
};

/** What an engine must not know: names, numbers and paths of E2B, of its daemon and of Connect. */
const E2B_WORDS =
  /e2b|envd|connectrpc|connect-protocol|connect\+|protobuf|49_?983|\w+\.(?:Process|Filesystem)\/|["`']\/(?:init|rest|files|envs|metrics)\b/gi;
/** A file in the folder of each container; those of an earlier version are adopted by this name. */
const KNOWN_TO_ENGINE: ReadonlySet<string> = new Set(['"envd.sock"']);
const IMPORT_PATTERN = /(?:\bfrom\s+|\bimport\s*\(\s*|^import\s+)"([^"]+)"/gm;

interface SourceFile {
  readonly path: string;
  readonly text: string;
}

async function readSources(): Promise<SourceFile[]> {
  const entries = await readdir(SOURCE, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".ts"));
  return Promise.all(
    files.map(async (entry) => {
      const path = join(entry.parentPath, entry.name);
      return { path: relative(SOURCE, path), text: await readFile(path, "utf8") };
    }),
  );
}

function roomOf(path: string): string {
  return path.split("/")[0] ?? path;
}

/** Every import of a file that its room has no right to. */
function violations(file: SourceFile): string[] {
  const room = roomOf(file.path);
  const rights = ROOMS[room];
  if (rights === undefined) return [`${file.path}: no room is called ${room}`];
  const found: string[] = [];
  for (const [, specifier = ""] of file.text.matchAll(IMPORT_PATTERN)) {
    if (!isAllowed({ file, room, rights, specifier })) {
      found.push(`${file.path} may not import ${specifier}`);
    }
  }
  return found;
}

function isAllowed(claim: {
  readonly file: SourceFile;
  readonly room: string;
  readonly rights: readonly string[];
  readonly specifier: string;
}): boolean {
  const { file, room, rights, specifier } = claim;
  if (specifier.startsWith(".")) {
    const path = relative(SOURCE, resolve(SOURCE, dirname(file.path), specifier));
    const target = path === "../package.json" ? "package.json" : roomOf(path);
    return target === room || rights.includes(target);
  }
  const owner = Object.keys(PACKAGES).find(
    (name) => specifier === name || specifier.startsWith(`${name}/`),
  );
  if (owner !== undefined) return PACKAGES[owner]?.includes(room) ?? false;
  return specifier.startsWith("node:");
}

test("every import stays within the rights of its folder", async () => {
  const files = await readSources();
  expect(files.length).toBeGreaterThan(MIN_FILES);
  expect(files.flatMap((file) => violations(file))).toEqual([]);
});

/** Every line of a file of the engine that knows of E2B. */
function knowledgeOfE2b({ path, text }: SourceFile): string[] {
  if (roomOf(path) !== "engine") return [];
  const unknown = [...KNOWN_TO_ENGINE].reduce((left, word) => left.replaceAll(word, ""), text);
  return [...unknown.matchAll(E2B_WORDS)].map(([word]) => `${path} may not know ${word}`);
}

test("the engine knows nothing of E2B", async () => {
  const files = await readSources();
  expect(files.filter(({ path }) => roomOf(path) === "engine").length).toBeGreaterThan(MIN_FILES);
  expect(files.flatMap((file) => knowledgeOfE2b(file))).toEqual([]);
});

test.for([
  'const bundle = "envd.cjs";',
  "const PORT = 49_983;",
  'request({ path: "/init" });',
  "request({ path: `/files?path=${path}` });",
  'const method = "/process.Process/Start";',
  'const type = "application/connect+json";',
  "// Of the wire, protobuf.",
])("knowledge of E2B is found in an engine: %s", (text) => {
  expect(knowledgeOfE2b({ path: "engine/x.ts", text })).toHaveLength(1);
  expect(knowledgeOfE2b({ path: "envd/x.ts", text })).toEqual([]);
});

/** The relative imports of each file, types included. */
function importsOf(files: readonly SourceFile[]): ReadonlyMap<string, readonly string[]> {
  const paths = new Set(files.map(({ path }) => path));
  const entries = files.map(({ path, text }) => {
    const specifiers = [...text.matchAll(IMPORT_PATTERN)].map(([, specifier = ""]) => specifier);
    const targets = specifiers
      .filter((specifier) => specifier.startsWith("."))
      .map((specifier) => relative(SOURCE, resolve(SOURCE, dirname(path), specifier)));
    return [path, targets.filter((target) => paths.has(target))] as const;
  });
  return new Map(entries);
}

/** The files that reach themselves by their imports. */
function filesInLoops(files: readonly SourceFile[]): string[] {
  const imports = importsOf(files);
  const isInLoop = (start: string) => {
    const seen = new Set<string>();
    const open = [...(imports.get(start) ?? [])];
    for (let path = open.pop(); path !== undefined; path = open.pop()) {
      if (path === start) return true;
      if (seen.has(path)) continue;
      seen.add(path);
      open.push(...(imports.get(path) ?? []));
    }
    return false;
  };
  return [...imports.keys()].filter(isInLoop).toSorted();
}

test("no two files import each other in a loop, types included", async () => {
  const files = await readSources();
  expect(files.length).toBeGreaterThan(MIN_FILES);
  expect(filesInLoops(files)).toEqual([]);
});

test("a loop is found, types included", () => {
  const files = [
    { path: "wire/a.ts", text: 'import type { B } from "./b.ts";' },
    { path: "wire/b.ts", text: 'import { c } from "./c.ts";' },
    { path: "wire/c.ts", text: 'const a = await import("./a.ts");' },
    { path: "wire/d.ts", text: 'import { c } from "./c.ts";' },
  ];
  expect(filesInLoops(files)).toEqual(["wire/a.ts", "wire/b.ts", "wire/c.ts"]);
});

test("every file but generated code begins with a header comment", async () => {
  const files = (await readSources()).filter((file) => !file.path.startsWith("gen/"));
  const bare = files.filter((file) => !/^(#!.*\n)?\/\*\*/.test(file.text)).map((file) => file.path);
  expect(bare).toEqual([]);
});

test("nothing imports the entry file", async () => {
  const files = await readSources();
  const importers = files.filter((file) => /from "[^"]*\/main\.ts"/.test(file.text));
  expect(importers.map((file) => file.path)).toEqual([]);
});

test.for([
  { path: "mcp/x.ts", text: 'import { a } from "../engine/engine.ts";' },
  { path: "mcp/x.ts", text: 'import "../engine/engine.ts";' },
  { path: "envd/x.ts", text: 'const a = await import("../client/service.ts");' },
  { path: "store/x.ts", text: 'import { request } from "undici";' },
  { path: "wire/x.ts", text: 'import type { B } from "left-pad";' },
  { path: "control/x.ts", text: 'import { spawn } from "node:child_process";' },
  { path: "attic/x.ts", text: "" },
])("a violation is found: $path $text", (file) => {
  expect(violations(file)).toHaveLength(1);
});
