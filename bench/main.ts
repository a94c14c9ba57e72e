/** Takes every figure in one run, prints a table, and writes bench/latest.json. */

import { writeFile } from "node:fs/promises";
import { cpus, release } from "node:os";
import { join } from "node:path";
import { openTestHome } from "../test/support/home.ts";
import type { Figure } from "./figure.ts";
import { measureFiles } from "./files.ts";
import { measureProcesses } from "./process.ts";
import { measureStart } from "./start.ts";
import { measureWire } from "./wire.ts";

await using home = await openTestHome();
const figures: Figure[] = [
  ...(await measureStart(home.path)),
  ...(await measureProcesses(home.path)),
  ...(await measureFiles()),
  ...(await measureWire()),
];
const machine = {
  cpu: cpus()[0]?.model ?? "unknown",
  cores: cpus().length,
  kernel: release(),
  node: process.version,
};
const rows = figures.map((figure) =>
  [
    figure.name.padEnd(42),
    `${figure.ours.toFixed(1)} ${figure.unit}`.padStart(12),
    `${figure.floor.toFixed(1)} ${figure.unit}`.padStart(12),
    (figure.floor === 0 ? "" : `${(figure.ours / figure.floor).toFixed(1)} x`).padStart(9),
    `  ${figure.floorName}, ${figure.samples} samples`,
  ].join(""),
);
const heading = `${"figure (median)".padEnd(42)}${"ours".padStart(12)}${"floor".padStart(12)}${"ratio".padStart(9)}`;
process.stdout.write(`${[heading, ...rows].join("\n")}\n`);
const report = { takenAt: new Date().toISOString(), machine, figures };
const target = join(import.meta.dirname, "latest.json");
await writeFile(target, `${JSON.stringify(report, null, 2)}\n`);
