/**
 * `npm run bench`: takes every figure in one run, prints the table, and writes JSON, plot and the
 * table of docs/performance.md. `-- --check` compares with the committed run instead of writing it;
 * `-- soak` looks for what many cycles and many sandboxes leave; `-- daemon-phases` shows where the
 * start of a daemon spends its time; `-- first-create` measures the first sandbox of an empty home,
 * with the build of its template. Names of parts take only those.
 */

import { execFile } from "node:child_process";
import { cpus, release } from "node:os";
import { promisify } from "node:util";
import { errorText } from "../src/common/errors.ts";
import { openTestHome } from "../test/support/home.ts";
import { findRegressions, type Regression } from "./check.ts";
import { measureClones } from "./clones.ts";
import type { BenchContext } from "./context.ts";
import { measureCreate } from "./create.ts";
import { measureCrowd } from "./crowd.ts";
import { runDaemonPhases } from "./daemon-phases.ts";
import { measureDensity, type Point } from "./density.ts";
import type { Row } from "./figure.ts";
import { runFirstCreate } from "./first-create.ts";
import { measureFlood } from "./flood.ts";
import { measureGvisor } from "./gvisor.ts";
import { measureImages } from "./images.ts";
import { measureInterpreter } from "./interpreter.ts";
import { measureLife } from "./life.ts";
import { measureMemory } from "./memory.ts";
import { installPeers } from "./peers.ts";
import { measureProcesses } from "./process.ts";
import { publish, readBaseline, toText, type Report } from "./report.ts";
import { openRuntime } from "./runtime.ts";
import { measureSmallFiles } from "./small-files.ts";
import { runSoak } from "./soak.ts";
import { measureCalls, measureStart } from "./start.ts";
import { measureWatch } from "./watch.ts";
import { measureWire } from "./wire.ts";

const DENSITIES = [1, 10, 100, 300, 500] as const;
/** On a slow machine the last of them are left out, so that a run ends. */
const DENSITY_MS = 8 * 60_000;
/** One slow moment of the machine is no regression: what looks like one is measured again. */
const CHECK_ROUNDS = 3;

/** Measured only where it is named. */
const LONG_PARTS: Readonly<Record<string, () => Promise<Row[]>>> = {
  async "clone-density"() {
    const deadlineMs = Number.POSITIVE_INFINITY;
    const measured = await measureDensity({ counts: DENSITIES, deadlineMs, from: "clone" });
    return measured.rows;
  },
};

/** Each is measured by itself; one that fails leaves the others alone. */
const PARTS: Readonly<Record<string, (context: BenchContext) => Promise<Row[]>>> = {
  start: measureStart,
  calls: measureCalls,
  create: measureCreate,
  processes: measureProcesses,
  crowd: measureCrowd,
  life: measureLife,
  clones: measureClones,
  "small-files": measureSmallFiles,
  memory: measureMemory,
  gvisor: measureGvisor,
  wire: measureWire,
  watch: measureWatch,
  flood: measureFlood,
};

const words = process.argv.slice(2).filter((word) => !word.startsWith("--"));
if (words[0] === "soak") process.exitCode = await runSoak();
else if (words[0] === "daemon-phases") process.exitCode = await runDaemonPhases();
else if (words[0] === "first-create") process.exitCode = await runFirstCreate();
else if (process.argv.includes("--check")) process.exitCode = await check();
else {
  const report = await measure(words);
  process.stdout.write(toText(report));
  if (words.length === 0) await publish(report);
  if (report.faults.length > 0) process.exitCode = 1;
}

/** Measures the named parts, or all of them. */
async function measure(wanted: readonly string[]): Promise<Report> {
  await using home = await openTestHome();
  await using runtime = await openRuntime();
  const context: BenchContext = { home: home.path, peers: await installPeers(), runtime };
  const rows: Row[] = [];
  const faults: { part: string; reason: string }[] = [];
  let curve: readonly Point[] = [];
  const parts: Readonly<Record<string, (given: BenchContext) => Promise<Row[]>>> = {
    ...PARTS,
    async density() {
      const deadlineMs = performance.now() + DENSITY_MS;
      const measured = await measureDensity({ counts: DENSITIES, deadlineMs, from: "template" });
      ({ curve } = measured);
      return measured.rows;
    },
    images: measureImages,
    interpreter: measureInterpreter,
    ...(wanted.length > 0 && LONG_PARTS),
  };
  for (const [part, work] of Object.entries(parts)) {
    if (wanted.length > 0 && !wanted.includes(part)) continue;
    const startedAt = performance.now();
    try {
      rows.push(...(await work(context)));
    } catch (error) {
      faults.push({ part, reason: errorText(error) });
    }
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(0);
    process.stderr.write(`${part}: ${seconds} s\n`);
  }
  const machine = {
    processors: cpus().length,
    processor: cpus()[0]?.model ?? "unknown",
    kernel: release(),
    Node: process.versions.node,
    runtime: await versionOf(runtime.name),
  };
  return { takenAt: new Date().toISOString(), machine, rows, curve, faults };
}

async function versionOf(runtime: string): Promise<string> {
  const { stdout } = await promisify(execFile)(runtime, ["--version"]);
  return (stdout.split("\n")[0] ?? runtime).replace(" version", "");
}

/** The exit code: 1 for a row that is worse in each of the rounds. */
async function check(): Promise<number> {
  const baseline = await readBaseline();
  if (baseline === undefined) {
    process.stderr.write("no baseline: npm run bench makes it\n");
    return 1;
  }
  let suspects: readonly Regression[] = [];
  for (let round = 1; round <= CHECK_ROUNDS; round += 1) {
    const { rows, faults } = await measure(words);
    const found = findRegressions(rows, baseline.rows);
    suspects =
      round === 1 ? found : found.filter(({ id }) => suspects.some((one) => one.id === id));
    for (const { part, reason } of faults) process.stderr.write(`${part}: ${reason}\n`);
    if (faults.length > 0) return 1;
    if (suspects.length === 0) break;
    for (const { text } of suspects) process.stderr.write(`round ${round}: ${text}\n`);
  }
  for (const { text } of suspects) process.stdout.write(`${text}\n`);
  if (suspects.length === 0) process.stdout.write("no row is worse than the baseline\n");
  return suspects.length === 0 ? 0 : 1;
}
