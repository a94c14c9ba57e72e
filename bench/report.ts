/** How a run is shown: a table for the terminal, one for the documents, and the JSON of both. */

import { execFile } from "node:child_process";
import { readFile, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { drawCurve } from "./curve.ts";
import type { Point } from "./density.ts";
import { ratioOf, type Row } from "./figure.ts";

const ROOT = join(import.meta.dirname, "..");
const DOCUMENT = join(ROOT, "docs/performance.md");
const PLOT = join(ROOT, "docs/cost-curve.svg");
/** Of this run alone; not a part of the repository. */
const LATEST = join(ROOT, "bench/latest.json");
/** What `--check` compares with. */
const BASELINE = join(ROOT, "bench/baseline.json");
const [BEGIN, END] = ["<!-- bench: begin -->", "<!-- bench: end -->"];

export interface Report {
  readonly takenAt: string;
  readonly machine: Readonly<Record<string, string | number>>;
  readonly rows: readonly Row[];
  readonly curve: readonly Point[];
  /** Parts that did not come to their end, and why. */
  readonly faults: readonly { readonly part: string; readonly reason: string }[];
}

/** The table for a terminal. */
export function toText({ rows, faults }: Report): string {
  const heading = ["figure", "result", "p95", "floor", "ratio", "goal", "floor; peers"];
  const table = [heading, ...rows.map(toCells)];
  const widths = heading.map((_, column) =>
    Math.max(...table.map((cells) => cells[column]?.length ?? 0)),
  );
  const lines = table.map((cells) =>
    cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  "),
  );
  const failed = faults.map(({ part, reason }) => `${part}: did not finish: ${reason}`);
  return `${[...lines, ...failed].join("\n")}\n`;
}

/** Writes the JSON of this run and the documents that show it. */
export async function publish(report: Report): Promise<void> {
  const json = `${JSON.stringify(report, null, 2)}\n`;
  await writeFile(LATEST, json);
  await writeFile(BASELINE, json);
  if (report.curve.length > 1) await writeFile(PLOT, drawCurve(report.curve));
  const text = await readFile(DOCUMENT, "utf8");
  const [before, rest] = text.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) {
    throw new Error(`${DOCUMENT} has no place for the table`);
  }
  await writeFile(DOCUMENT, `${before}${BEGIN}\n\n${toMarkdown(report)}\n${END}${after}`);
  const formatter = await realpath(join(ROOT, "node_modules/.bin/oxfmt"));
  await promisify(execFile)(process.execPath, [formatter, DOCUMENT, BASELINE], { cwd: ROOT });
}

/** The committed run; undefined when there is none. */
export async function readBaseline(): Promise<Report | undefined> {
  const text = await readFile(BASELINE, "utf8").catch(() => undefined);
  // Our own file is as we wrote it.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return text === undefined ? undefined : (JSON.parse(text) as Report);
}

function toMarkdown({ takenAt, machine, rows, curve, faults }: Report): string {
  const facts = Object.entries(machine).map(([name, value]) => `${name} ${value}`);
  const heading = ["figure", "result", "p95", "floor", "ratio", "goal", "floor; peers"];
  const lines = [heading, heading.map(() => "---"), ...rows.map(toCells)].map(
    (cells) => `| ${cells.join(" | ")} |`,
  );
  const failed = faults.map(({ part, reason }) => `- ${part} did not finish: ${reason}`);
  const points = curve.map((point) =>
    [
      String(point.sandboxes),
      ...[point.createMs, point.execMs, point.listP99Ms].map((ms) => `${ms.toFixed(1)} ms`),
      `${point.memoryMib.toFixed(1)} MiB`,
      `${point.idlePercent.toFixed(2)} %`,
    ].join(" | "),
  );
  const curveHeading = "sandboxes | create | exec | list p99 | memory of each | idle processors";
  const curveTable = [curveHeading, "--- | --- | --- | --- | --- | ---", ...points];
  return [
    `One run on ${takenAt.slice(0, 10)}: ${facts.join(", ")}. Medians; missed goals are bold.`,
    "",
    ...lines,
    ...(failed.length === 0 ? [] : ["", ...failed]),
    "",
    ...curveTable.map((line) => `| ${line} |`),
    ...(curve.length > 1
      ? ["", "![Cost of a sandbox by number of sandboxes](cost-curve.svg)"]
      : []),
    "",
  ].join("\n");
}

function toCells(row: Row): string[] {
  const ratio = ratioOf(row);
  const goals = row.verdicts.map(({ goal, isMet }) => (isMet ? goal : `**missed: ${goal}**`));
  const peers = row.peers.map(({ name, value, note }) =>
    value === undefined ? `${name}: ${note}` : `${name}: ${toFigure(value, row.unit)}`,
  );
  const floor = row.floorName === undefined ? [] : [row.floorName];
  return [
    row.name,
    toFigure(row.ours, row.unit),
    row.p95 === undefined || row.unit !== "ms" ? "" : toFigure(row.p95, row.unit),
    row.floor === undefined ? "" : toFigure(row.floor, row.unit),
    ratio === undefined ? "" : `${ratio.toFixed(2)} x`,
    goals.join(", "),
    [...floor, ...peers].join("; "),
  ];
}

function toFigure(value: number, unit: string): string {
  return `${value.toFixed(value < 10 ? 2 : 1)} ${unit}`.trimEnd();
}
