/**
 * Remembers a successful probe, so that later starts cost a file read: at once, since a host waits
 * for it and these are files of the kernel and of the page cache.
 */

import { readFileSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { isCode } from "../../common/errors.ts";
import { canWrite, draftOf, writeWhole } from "../../common/files.ts";
import { tryParseJson } from "../../common/json.ts";
import { isRootless, readPrivilege } from "../../common/privilege.ts";
import { z } from "../../common/schema.ts";
import type { DaemonSources } from "../daemon/daemon.ts";
import { ISOLATION_LEVELS, type EngineReport, type IsolationLevel } from "../engine.ts";
import { findProgram } from "../host/find-program.ts";
import { hasRunDirectory } from "../host/id-ranges.ts";
import { parseMounts } from "../host/mount-table.ts";
import { isEnough, MIN_OPEN_FILES, readOpenFiles } from "../host/open-files.ts";
import { findDelegation } from "./delegation.ts";
import type { RuntimeChoice } from "./launch-context.ts";

export interface ProbeOptions {
  readonly home: string;
  /** `auto`, the name of a runtime, or its path. */
  readonly runtime: string;
  readonly daemon: DaemonSources;
  /** Why an ordinary user has no namespace for containers. */
  readonly namespaceFault: string | undefined;
  /** A weaker machine is not used. */
  readonly requireLevel: IsolationLevel;
}

export interface ProbeResult {
  readonly report: EngineReport;
  /** Undefined when nothing passed. */
  readonly choice: RuntimeChoice | undefined;
}

/** A change of what the probe looks at makes older results void. */
const PROBE_VERSION = 9;
/** Best first; an explicit choice may name any other program. */
const CANDIDATES = ["crun", "runc", "runsc"];
/** Each runtime that is asked for has a file, so that none voids another's. */
const cacheName = ({ runtime }: ProbeOptions): string =>
  runtime === "runsc" ? "engine-probe-runsc.json" : "engine-probe.json";

const levelSchema = z.enum(ISOLATION_LEVELS);
const cacheSchema = z.object({
  key: z.string(),
  choice: z.object({
    runtime: z.string(),
    level: levelSchema,
    usesDelegation: z.boolean(),
    flags: z.array(z.string()).optional(),
    carriesMemory: z.boolean().optional(),
  }),
  report: z.object({
    runtime: z.string(),
    level: levelSchema,
    isUsable: z.literal(true),
    checks: z.array(
      z.object({
        name: z.string(),
        outcome: z.enum(["ok", "warning", "missing"]),
        detail: z.string(),
        remedy: z.string().optional(),
      }),
    ),
  }),
});

/** The runtimes to try, as paths. */
export function findCandidates(runtime: string): string[] {
  const names = runtime === "auto" ? CANDIDATES : [runtime];
  return names.map((name) => findProgram(name)).filter((path) => path !== undefined);
}

/** A key that changes with everything that could change the answer. */
export function probeKey(
  options: ProbeOptions,
  candidates: readonly string[],
  delegation = findDelegation(),
): string {
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  const programs = [...candidates, options.daemon.node].map((path) => {
    const { size, mtimeMs } = statSync(path);
    return [path, size, mtimeMs];
  });
  // These and no others: an engine's further options change nothing about the probe. A service has
  // copies of the daemon's files, at other paths each time.
  const { home, runtime, namespaceFault, requireLevel } = options;
  const asked = { home, runtime, namespaceFault, requireLevel, delegation };
  const hard = readOpenFiles();
  const files = Object.values(MIN_OPEN_FILES).map((count) => isEnough(hard, count));
  const trees = isRootless() ? [] : cgroupTrees(readFileSync("/proc/self/mountinfo", "utf8"));
  const rights = rightsOf(readFileSync("/proc/self/status", "utf8"));
  const parts = [PROBE_VERSION, release(), boot, asked, programs, files, trees];
  return JSON.stringify([...parts, readPrivilege(), rights]);
}

/**
 * What the kernel lets this process do: a systemd unit, or a container, that is made stricter keeps its
 * home. @see proc_pid_status(5)
 */
export function rightsOf(status: string): string[] {
  return status.match(/^(?:CapBnd|CapEff|NoNewPrivs|Seccomp|Seccomp_filters):.*$/gm) ?? [];
}

/**
 * The cgroup trees that take orders, by their places. Another process of the home, as in a container
 * with the home as its volume, may see others: without any, its sandboxes would have no limits.
 */
export function cgroupTrees(mountTable: string): string[] {
  // Of a machine with thousands of mounts the few that count.
  const lines = mountTable.split("\n").filter((line) => line.includes(" - cgroup"));
  const mounts = parseMounts(lines.join("\n")).filter(({ target }) => canWrite(target));
  return mounts.map(({ type, target, options }) => [type, target, ...options].join(" ")).toSorted();
}

/** What a probe with these options would find without trying anything; undefined if it would try. */
export function recallProbe(options: ProbeOptions): ProbeResult | undefined {
  return readProbe(options, probeKey(options, findCandidates(options.runtime)));
}

/** The remembered result of a probe with this key; undefined where it cannot hold any more. */
export function readProbe(options: ProbeOptions, key: string): ProbeResult | undefined {
  const text = readCache(join(options.home, cacheName(options)));
  if (text === undefined) return undefined;
  const data = parseCache(text);
  // A file system becomes read-only without a new start of the machine.
  if (data === undefined || data.key !== key || !hasRunDirectory()) return undefined;
  const { choice, report } = data;
  const checks = report.checks.map(({ remedy, ...check }) =>
    remedy === undefined ? check : { ...check, remedy },
  );
  return { choice, report: { ...report, checks } };
}

/** Undefined also for half of one, as a power cut may leave: the machine is tried again then. */
function parseCache(text: string): z.infer<typeof cacheSchema> | undefined {
  // Once for each start: to compile the schema would take longer.
  return cacheSchema.safeParse(tryParseJson(text), { jitless: true }).data;
}

/** Remembers a success; of a failure nothing is kept. */
export async function writeProbe(
  options: ProbeOptions,
  key: string,
  result: ProbeResult,
): Promise<void> {
  const path = join(options.home, cacheName(options));
  if (result.choice === undefined) await rm(path, { force: true });
  else
    await writeWhole(path, JSON.stringify({ key, ...result }), draftOf(`${path}.${process.pid}`));
}

function readCache(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    // Where the home cannot be one, the program that opens it says so.
    if (isCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
}
