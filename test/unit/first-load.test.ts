/** What a stdio server loads before it can answer its host: a package among it costs each start. */

import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { expect, test } from "vitest";

const SOURCE = resolve(import.meta.dirname, "../../src");
const MIN_FILES = 20;

/** An import or export of values from another module, up to the end of its statement. */
const STATEMENT_PATTERN = /^(?:import|export) (?!type )(?:[^;"']*? from )?"([^"]+)";/gm;

/** The modules that these files load at once, by the file or module that names each first. */
async function loadedBy(files: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const found = new Map(files.map((file) => [resolve(SOURCE, file), "the program"]));
  for (const path of found.keys()) {
    if (!path.startsWith(SOURCE) || !path.endsWith(".ts")) continue;
    const text = await readFile(path, "utf8");
    for (const [statement, specifier = ""] of text.matchAll(STATEMENT_PATTERN)) {
      if (hasTypesAlone(statement)) continue;
      const target = specifier.startsWith(".") ? resolve(dirname(path), specifier) : specifier;
      if (!found.has(target)) found.set(target, path.slice(SOURCE.length + 1));
    }
  }
  return found;
}

/** `import { type A, type B }` loads nothing. */
function hasTypesAlone(statement: string): boolean {
  const names = /^\w+ \{([^}]*)\}/.exec(statement)?.[1]?.split(",");
  return names !== undefined && names.every((name) => name.trim() === "" || /^\s*type /.test(name));
}

/** What these load that none of the allowed packages begins. */
async function packagesOf(files: readonly string[]): Promise<string[]> {
  const loaded = await loadedBy(files);
  expect(loaded.size).toBeGreaterThan(MIN_FILES);
  return [...loaded.keys()].filter((name) => !name.startsWith("/") && !name.startsWith("node:"));
}

test("the command line loads two packages", async () => {
  expect((await packagesOf(["cli.ts"])).toSorted()).toEqual(["pino", "zod"]);
});

test("the stdio server adds none before it has answered the opening of its host", async () => {
  expect((await packagesOf(["cli.ts", "commands/stdio/stdio.ts"])).toSorted()).toEqual([
    "pino",
    "zod",
  ]);
});

test("nor any part of the service, or what starts programs", async () => {
  const entries = ["cli.ts", "commands/stdio/stdio.ts", "engine/oci/probe-cache.ts"];
  const loaded = [...(await loadedBy(entries)).keys()];
  const parts =
    /^(?:src\/(?:control|sandboxes|spool|store)\/|src\/engine\/(?:storage|templates)\/)/;
  const names = loaded.map((name) => name.replace(SOURCE, "src"));
  expect(names.filter((name) => parts.test(name))).toEqual([]);
  expect(names).not.toContain("node:child_process");
});

test.for([
  "@modelcontextprotocol/server",
  "undici",
  "@connectrpc/connect",
  "@bufbuild/protobuf",
  "node:child_process",
  "node:sqlite",
])("%s is found where it is loaded", async (name) => {
  expect([
    ...(
      await loadedBy([
        "commands/serve/serve-mcp.ts",
        "sandboxes/reclaim/reclaim.ts",
        "store/sqlite.ts",
      ])
    ).keys(),
  ]).toContain(name);
});
