/**
 * Prints the README with its table of tools renewed from tools.manifest.json; `npm run generate`
 * keeps it so. Tokens are counted as in the manifest: four bytes of what a host is told of a tool.
 */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..");
const BEGIN = "<!-- tools: written by npm run generate -->";
const END = "<!-- /tools -->";
const BYTES_PER_TOKEN = 4;

interface Tool {
  readonly name: string;
  readonly description: string;
  readonly toolset: "core" | "all";
}

interface Manifest {
  readonly tools: readonly Tool[];
}

const { tools }: Manifest = JSON.parse(
  await readFile(resolve(ROOT, "tools.manifest.json"), "utf8"),
);
const text = await readFile(resolve(ROOT, "README.md"), "utf8");
const [before, rest = ""] = text.split(BEGIN);
const [, after = ""] = rest.split(END);
if (before === undefined || after === "") throw new Error("the README has no marks for the table");
process.stdout.write(`${before}${BEGIN}\n\n${renderTable()}\n\n${END}${after}`);

function renderTable(): string {
  const sorted = tools.toSorted((left, right) => right.toolset.localeCompare(left.toolset));
  const rows = sorted.map((tool) => {
    const mark = tool.toolset === "core" ? "" : " ○";
    return `| \`${tool.name}\`${mark} | ${firstSentence(tool)} | ${tokensOf(tool)} |`;
  });
  const core = tools.filter(({ toolset }) => toolset === "core");
  return [
    "| tool | does | tokens |",
    "| --- | --- | ---: |",
    ...rows,
    "",
    `Tools marked ○ are listed with \`--toolsets all\`, the others by default: ${core.length} tools of about ${sumOf(core)} tokens, ${tools.length} of about ${sumOf(tools)} in all.`,
  ].join("\n");
}

function firstSentence({ description }: Tool): string {
  return (/^.*?[.;:](?= |$)/s.exec(description)?.[0] ?? description).replace(/[.;:]$/, "");
}

/** The toolset is ours alone: no host is told of it. */
function tokensOf({ toolset: _toolset, ...listed }: Tool): number {
  return Math.ceil(Buffer.byteLength(JSON.stringify(listed), "utf8") / BYTES_PER_TOKEN);
}

function sumOf(some: readonly Tool[]): number {
  return some.reduce((sum, tool) => sum + tokensOf(tool), 0);
}
