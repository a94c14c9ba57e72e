/**
 * Writes EVIDENCE.md from the last whole run of the security level: the result of each requirement,
 * on which runtimes, at which isolation level. A row contains only results of that run.
 */

import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "../src/common/schema.ts";
import { ATTACKS, IMPOSSIBLE, NARROWER, REQUIREMENTS, type Requirement } from "./evidence-rows.ts";

const ROOT = resolve(import.meta.dirname, "..");
const LATEST = join(ROOT, "test/security/latest");
const MS_PER_MINUTE = 60_000;

const factsSchema = z.object({
  commit: z.string(),
  isCommitted: z.boolean(),
  kernel: z.string(),
  node: z.string(),
  cores: z.number(),
  runtimes: z.array(z.object({ name: z.string(), version: z.string(), level: z.string() })),
  refused: z.array(z.object({ name: z.string(), reason: z.string() })),
  isCensusEqual: z.boolean(),
});
const delaysSchema = z.object({ p50: z.number(), p90: z.number(), max: z.number() });
const figuresSchema = z.object({
  bomb: z.string(),
  calls: z.number(),
  without: delaysSchema,
  beside: delaysSchema,
});
const resultsSchema = z.object({
  startTime: z.number(),
  testResults: z.array(
    z.object({
      endTime: z.number(),
      assertionResults: z.array(
        z.object({
          ancestorTitles: z.array(z.string()),
          title: z.string(),
          status: z.string(),
          meta: z
            .object({ cells: z.number().optional(), figures: figuresSchema.optional() })
            .optional(),
        }),
      ),
    }),
  ),
});

type Facts = z.infer<typeof factsSchema>;

interface Result {
  readonly ids: readonly string[];
  readonly title: string;
  /** The attacked runtime; undefined if the test used none or the default runtime. */
  readonly runtime: string | undefined;
  readonly isControl: boolean;
  /** Number of tried combinations; 0 if the test reports none. */
  readonly cells: number;
  readonly figures: z.infer<typeof figuresSchema> | undefined;
  readonly hasPassed: boolean;
}

const facts = factsSchema.parse(JSON.parse(await readFile(join(LATEST, "facts.json"), "utf8")));
const run = resultsSchema.parse(JSON.parse(await readFile(join(LATEST, "run.json"), "utf8")));
const reported = run.testResults.flatMap(({ assertionResults }) => assertionResults);
const results = reported
  .filter(({ status }) => status !== "skipped")
  .map((one): Result => {
    const text = [...one.ancestorTitles, one.title].join(" ");
    return {
      ids: one.title.match(/\b[ERX]\d{1,2}\b/g) ?? [],
      title: one.title,
      runtime: /^on (\S+( without root)?)/.exec(one.ancestorTitles.join(" "))?.[1],
      cells: one.meta?.cells ?? 0,
      figures: one.meta?.figures,
      isControl: /\bcontrol\b|without the defence/.test(text),
      hasPassed: one.status === "passed",
    };
  });
/** Rounds that another command makes. */
const skipped = reported.length - results.length;
await writeFile(join(ROOT, "EVIDENCE.md"), `${render(facts)}\n`);

function render(known: Facts): string {
  const endedAtMs = Math.max(...run.testResults.map(({ endTime }) => endTime));
  const minutes = ((endedAtMs - run.startTime) / MS_PER_MINUTE).toFixed(1);
  const changed = known.isCommitted ? "" : ", with changes that were not committed";
  return [
    "# Evidence",
    "",
    "Written by `npm run evidence` from one run of `npm run security`; not edited by hand. Ids are those of attacks and requirements; the names of the tests contain them.",
    "",
    ...table(
      ["what", "in this run"],
      [
        ["commit", `${known.commit}${changed}`],
        ["day", new Date(run.startTime).toISOString().slice(0, 10)],
        ["kernel", known.kernel],
        ["node", known.node],
        ["cores", String(known.cores)],
        ...known.runtimes.map(({ name, version, level }) => [
          `runtime ${name}`,
          `${version}, isolation ${level}`,
        ]),
        ...known.refused.map(({ name, reason }) => [
          `runtime ${name}`,
          `no sandbox starts on this runtime, so no row below was run on it: ${reason}`,
        ]),
        [
          "tests",
          `${count(results)} passed${skipped === 0 ? "" : `; ${skipped} are run by other commands`}`,
        ],
        [
          "failed",
          results
            .filter(({ hasPassed }) => !hasPassed)
            .map(({ title }) => title)
            .join("; ") || "none",
        ],
        ["time", `${minutes} min`],
        [
          "remains on the machine",
          known.isCensusEqual ? "none: the census equals the census before the run" : "some",
        ],
      ],
    ),
    "",
    `${describeMissing(known)} \`container\`, which the engine never creates on purpose ([security](docs/security.md) gives the reason).`,
    "",
    "## Attacks from within",
    "",
    "Passed tests of all tests for an attack: on each runtime (at the level `userns-container` unless the head of its column names another one), without a runtime (`service`), and as control runs, in which the same attack must succeed without the defence; `cases` is the number of generated cases. `–`: not run on this runtime; n/a: cannot run.",
    "",
    ...attackTable(known),
    "",
    "## Neighbour beside a bomb",
    "",
    "Duration of calls of one sandbox in milliseconds, without and beside an attack of another sandbox, measured in turns: median, 90th percentile, maximum.",
    "",
    ...neighbourTable(),
    "",
    "## Requirements",
    "",
    ...table(
      ["id", "requirement", "number reached", "verdict"],
      REQUIREMENTS.map((row) => requirementRow(row)),
    ),
  ].join("\n");
}

function describeMissing({ runtimes }: Facts): string {
  const isShown = runtimes.some(({ level }) => level === "gvisor");
  return isShown
    ? "What differs by design at the level `gvisor` is a table of [security](docs/security.md#a-kernel-of-its-own). Level that this run did not show:"
    : "Levels that this run did not show: `gvisor`, for which no runsc was found, and";
}

function attackTable(known: Facts): string[] {
  const unprivileged = results.flatMap(({ runtime }) =>
    runtime?.endsWith("without root") ? [runtime] : [],
  );
  const names = [...known.runtimes.map(({ name }) => name), ...new Set(unprivileged)];
  const heads = [...known.runtimes.map((runtime) => headOf(runtime)), ...new Set(unprivileged)];
  return table(
    ["id", "attack", ...heads, "service", "cases", "control", "verdict"],
    ATTACKS.map(([id, title]) => {
      const all = results.filter(({ ids }) => ids.includes(id));
      const attacks = all.filter(({ isControl }) => !isControl);
      const ofRuntime = (name: string) => attacks.filter(({ runtime }) => runtime === name);
      const controls = all.filter(({ isControl }) => isControl);
      return [
        id,
        title,
        ...names.map((name) => {
          const narrower = NARROWER[name]?.[id];
          const reached = [count(ofRuntime(name)), ...(narrower === undefined ? [] : [narrower])];
          return IMPOSSIBLE[name]?.[id] ?? reached.join(", ");
        }),
        count(attacks.filter(({ runtime }) => runtime === undefined)),
        casesOf(all),
        count(controls),
        attackVerdict(attacks, controls),
      ];
    }),
  );
}

function headOf({ name, level }: Facts["runtimes"][number]): string {
  return level === "userns-container" ? name : `${name} (${level})`;
}

function casesOf(found: readonly Result[]): string {
  const sum = found.reduce((cells, one) => cells + one.cells, 0);
  return sum === 0 ? "–" : String(sum);
}

function neighbourTable(): string[] {
  const rows = results.flatMap(({ figures, runtime = "service" }) => {
    if (figures === undefined) return [];
    const { bomb, calls, without, beside } = figures;
    const toTimes = ({ p50, p90, max }: typeof without) => [p50, p90, max].join(" / ");
    const ratio = (beside.p90 / without.p90).toFixed(1);
    return [[bomb, runtime, String(calls), toTimes(without), toTimes(beside), ratio]];
  });
  return table(["bomb", "where", "calls", "without", "beside", "ratio of p90"], rows);
}

function attackVerdict(attacks: readonly Result[], controls: readonly Result[]): string {
  if (attacks.length === 0) return "not run";
  if (attacks.some(({ hasPassed }) => !hasPassed)) return "**failed**";
  if (controls.length === 0) return "held, no control";
  return controls.every(({ hasPassed }) => hasPassed) ? "held" : "held, control failed";
}

function requirementRow({ id, title, counts, unit, note }: Requirement): string[] {
  const found = results.filter(
    (one) => counts !== undefined && counts.test(one.title) && !one.isControl,
  );
  if (found.length === 0) return [id, title, "–", note];
  const verdict = found.every(({ hasPassed }) => hasPassed) ? note : `**failed**; ${note}`;
  const reached = unit === undefined ? "" : `, ${casesOf(found)} ${unit}`;
  return [id, title, `${count(found)} tests${reached}`, verdict];
}

function count(found: readonly Result[]): string {
  if (found.length === 0) return "–";
  return `${found.filter(({ hasPassed }) => hasPassed).length}/${found.length}`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return [line(head), line(head.map(() => "---")), ...rows.map((row) => line(row))];
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
