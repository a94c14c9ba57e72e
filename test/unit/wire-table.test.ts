/** The tables of docs/wire.md: each row names tests that exist, and each route has a row. */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { documentedStatuses } from "../../scripts/openapi-document.ts";
import { ROUTES } from "../../src/control/routes/index.ts";
import { CONTENT_ROUTES } from "../../src/control/volume-content-routes.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const text = await readFile(join(ROOT, "docs/wire.md"), "utf8");

/** The rows of every table whose last column is `test`, without the heads. */
function testedRows(): string[][] {
  const rows: string[][] = [];
  let isTested = false;
  let isHead = true;
  for (const line of text.split("\n")) {
    if (!line.startsWith("|")) {
      isHead = true;
      continue;
    }
    const cells = line.split("|").slice(1, -1);
    if (isHead) isTested = cells.at(-1)?.trim() === "test";
    else if (isTested && !/^[\s:-]+$/.test(cells[0] ?? "")) rows.push(cells);
    isHead = false;
  }
  return rows;
}

test("each row names at least one test, and each test is a file", () => {
  const rows = testedRows();
  expect(rows.length).toBeGreaterThan(80);
  for (const cells of rows) {
    const files = [...(cells.at(-1) ?? "").matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);
    expect({ row: cells[0]?.trim(), tests: files.length > 0 }).toMatchObject({ tests: true });
    for (const path of files) {
      expect({ path, isThere: existsSync(join(ROOT, path)) }).toEqual({ path, isThere: true });
    }
  }
});

interface Routed {
  readonly method: string;
  readonly path: string;
}

/** As a row names it: identifiers are written short. */
function nameInRow({ method, path }: Routed): string {
  return `${method} ${path.replaceAll(/\{(?!alias|hash|tag\b)\w+\}/g, "{id}")}`;
}

/** What is missing in the first cells of the rows, as they would name it. */
function unnamed(cells: readonly string[], routes: readonly Routed[]): readonly string[] {
  return routes.map(nameInRow).filter((name) => {
    const [method = "", short = ""] = name.split(" ");
    // A cell leaves out the path that it shares with the cell before.
    const rest = short.replace("/templates/{id}", "");
    return !cells.some(
      (cell) =>
        cell.includes(`\`${name}\``) ||
        (cell.includes(`\`${method} `) && rest !== "" && cell.includes(`\`${rest}\``)),
    );
  });
}

test("each route that is offered has a row", () => {
  const cells = testedRows().map(([operation = ""]) => operation);
  const offered = ROUTES.filter((route) => !documentedStatuses(route).includes(501));
  expect(offered.length).toBeGreaterThan(30);
  expect(unnamed(cells, offered)).toEqual([]);
  const contents = CONTENT_ROUTES.map(({ method, path }) => {
    return { method, path: path.replace("/volumecontent/{volumeID}", "...") };
  });
  expect(unnamed(cells, contents)).toEqual([]);
});

test("a route without a row is told as its row would name it", () => {
  const routes = [
    { method: "GET", path: "/sandboxes/{sandboxID}" },
    { method: "GET", path: "/sandboxes/{sandboxID}/absent/{alias}" },
  ];
  expect(unnamed(["`GET /sandboxes/{id}`"], routes)).toEqual([
    "GET /sandboxes/{id}/absent/{alias}",
  ]);
});
