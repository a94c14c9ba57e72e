/**
 * What this machine can do, found out by trying: a tiny container is made, limited, asked, frozen,
 * thawed and ended. Names and version numbers prove nothing.
 */

import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { diskFullError, errorText, isCode, SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { isRootless } from "../../common/privilege.ts";
import { shortageOf } from "../../common/shortage.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { prepareDaemon } from "../daemon/daemon.ts";
import {
  ISOLATION_LEVELS,
  type Container,
  type EngineCheck,
  type IsolationLevel,
} from "../engine.ts";
import { createTrial, readFinding, type Finding } from "../gvisor/abilities.ts";
import { readFlags } from "../gvisor/flags.ts";
import { pausedByKernel } from "../gvisor/relay.ts";
import { holdLock } from "../host/lock.ts";
import { isEnough, MIN_OPEN_FILES, readOpenFiles } from "../host/open-files.ts";
import { runProgram } from "../host/run-program.ts";
import { askDaemon } from "../network/ask-daemon.ts";
import { createRouters } from "../network/router.ts";
import { createBlankDisks } from "../storage/blank-disk.ts";
import { newProbeId } from "../storage/prune.ts";
import { hasCgroups, openCgroup, readCgroupHost, type CgroupHost } from "./cgroups.ts";
import { findDelegation, type Delegation } from "./delegation.ts";
import { failureRemedy } from "./failure-remedy.ts";
import type { LaunchContext, RuntimeChoice } from "./launch-context.ts";
import { startContainer } from "./launch.ts";
import { tryMemory } from "./memory-trial.ts";
import {
  findCandidates,
  probeKey,
  readProbe,
  writeProbe,
  type ProbeOptions,
  type ProbeResult,
} from "./probe-cache.ts";
import { checkRequirements, makeHome, findProcFault } from "./requirements.ts";
import { createSeccompCache } from "./seccomp.ts";
import { createSocketWatch } from "./socket-watch.ts";

/** A machine that starts many sandboxes beside other work is slow, and not unable. */
const ANSWER_TIMEOUT_MS = 30_000;
/** A kernel of its own counts as the container's. */
const PROBE_MEMORY_MB = { shared: 64, own: 160 } as const;
/** With less, what fails fails for want of it; memory that is saved has some 20 MB beside its disk. */
const MIN_FREE_BYTES = { start: 16 * 1024 ** 2, memory: 64 * 1024 ** 2 } as const;
/** Without cgroups the kernel counts all that the user has in the namespace, other servers too. */
const PROBE_PIDS = { counted: 32, shared: 1_024 } as const;
const BYTES_PER_MB = 1024 * 1024;
/** The first runtime that works is taken, and a stronger one only where it is named. */
const STRONGER =
  "name a stronger runtime, as --runtime runsc for gvisor, or ask for a weaker level with --require-isolation";
/**
 * Looks at this machine. A success is remembered in the home until the machine, its kernel or the
 * runtime changes; `fresh` looks again. It never throws for what is missing: the report says it.
 */
export async function probeMachine(
  options: ProbeOptions,
  freshness: "cached" | "fresh",
): Promise<ProbeResult> {
  const procFault = findProcFault();
  if (procFault !== undefined) return unusable([procFault]);
  const candidates = findCandidates(options.runtime);
  const delegation = findDelegation();
  const key = probeKey(options, candidates, delegation);
  const known = freshness === "cached" ? readProbe(options, key) : undefined;
  if (known !== undefined) return known;
  // Several that begin at once would slow each other down; without the lock it only takes longer.
  const lock = await holdLock(options.home, "probe").catch(() => undefined);
  try {
    const meanwhile = freshness === "cached" ? readProbe(options, key) : undefined;
    if (meanwhile !== undefined) return meanwhile;
    const limited = delegation && (await tryMachine(options, candidates, delegation));
    const result = limited?.choice ? limited : await tryMachine(options, candidates);
    // A home that cannot be written to is refused by what opens it.
    await writeProbe(options, key, result).catch(() => undefined);
    return result;
  } finally {
    await lock?.[Symbol.asyncDispose]();
  }
}

async function tryMachine(
  options: ProbeOptions,
  candidates: readonly string[],
  delegation?: Delegation,
): Promise<ProbeResult> {
  const { runtime, daemon, namespaceFault } = options;
  const cgroups = await readCgroupHost(delegation);
  const checks = await checkRequirements({
    candidates,
    runtime,
    namespaceFault,
    bundle: daemon.bundle,
    cgroups,
    home: options.home,
  });
  if (checks.some((check) => check.outcome === "missing")) return unusable(checks);
  const fault = makeHome(options.home);
  if (fault !== undefined) return unusable([...checks, fault]);
  for (const candidate of candidates) {
    const { choice, check, version } = await tryRuntime(options, candidate, cgroups);
    checks.push(check);
    if (choice !== undefined) return judge({ options, choice, version, checks });
  }
  return unusable(checks.map((check) => asMissing(check)));
}

function judge(found: {
  readonly options: ProbeOptions;
  readonly choice: RuntimeChoice;
  readonly version: string;
  readonly checks: readonly EngineCheck[];
}): ProbeResult {
  const { choice, options } = found;
  const wanted = ISOLATION_LEVELS.indexOf(options.requireLevel);
  const isStrong = ISOLATION_LEVELS.indexOf(choice.level) >= wanted;
  const isolation: EngineCheck = isStrong
    ? { name: "isolation", outcome: "ok", detail: choice.level }
    : {
        name: "isolation",
        outcome: "missing",
        detail: `${choice.level} is weaker than the required ${options.requireLevel}`,
        remedy: STRONGER,
      };
  const checks = [...found.checks, isolation];
  if (!isStrong) return unusable(checks);
  const report = { runtime: found.version, level: choice.level, isUsable: true, checks };
  return { report, choice };
}

function unusable(checks: readonly EngineCheck[]): ProbeResult {
  return {
    report: { runtime: undefined, level: "none", isUsable: false, checks },
    choice: undefined,
  };
}

/** Where no runtime passed, each one's failure is what is missing. */
function asMissing(check: EngineCheck): EngineCheck {
  if (check.outcome !== "warning" || !check.name.startsWith("runtime ")) return check;
  return { ...check, outcome: "missing", remedy: check.remedy ?? failureRemedy(check.detail) };
}

interface Trial {
  readonly choice: RuntimeChoice | undefined;
  readonly check: EngineCheck;
  readonly version: string;
}

async function tryRuntime(
  options: ProbeOptions,
  runtime: string,
  cgroups: CgroupHost,
): Promise<Trial> {
  const version = await readVersion(runtime);
  const name = `runtime ${runtime}`;
  try {
    const daemon = await prepareDaemon(options.home, options.daemon);
    const { perlDirectory } = options.daemon;
    const usesDelegation = cgroups.delegation !== undefined;
    const flags = await readFlags(runtime);
    if (flags !== undefined) requireForKernel();
    const { level, proof, finding, carriesMemory } = await runTinyContainer(options.home, {
      runtime,
      level: "none",
      usesDelegation,
      flags,
      cgroups,
      daemon,
      perlDirectory,
      filters: createSeccompCache(),
      keys: { home: options.home, isOn: false },
      hasDeadlines: false,
      sockets: createSocketWatch(),
      blanks: createBlankDisks(perlDirectory),
      disksFolder: undefined,
      outside: undefined,
      routers: createRouters(perlDirectory),
      ...(flags !== undefined && { trial: createTrial(), carriesMemory: true }),
    });
    const carried = carriesMemory ? "; memory saved and restored" : "; memory is not carried";
    const known = finding === undefined ? "" : `${carried}; ${finding.detail}`;
    const remedy = finding?.remedy;
    const check = {
      name,
      outcome: "ok",
      detail: `${version}: ${proof}${known}`,
      ...(remedy !== undefined && { remedy }),
    } as const;
    const choice = { runtime, level, usesDelegation, flags, carriesMemory };
    return { choice, version, check };
  } catch (error) {
    // No other runtime would find space; on a full disk a runtime cannot even write its reason.
    if (isCode(error, "ENOSPC") || (await lacksSpace(options.home, "start"))) {
      throw diskFullError(`disk of ${options.home}`, error);
    }
    const remedy = shortageOf(error)?.hint;
    const check: EngineCheck = {
      name,
      outcome: "warning",
      detail: `${version}: ${quoteUntrusted(errorText(error))}`,
      ...(remedy !== undefined && { remedy }),
    };
    return { choice: undefined, version, check };
  }
}

function requireForKernel(): void {
  if (isRootless()) throw new SandboxError("unavailable", "a kernel of its own needs root");
  const hard = readOpenFiles();
  if (isEnough(hard, MIN_OPEN_FILES.own)) return;
  const needs = `a kernel of its own needs ${MIN_OPEN_FILES.own} open files or more`;
  throw new SandboxError("unavailable", `${needs}, and ulimit -Hn is ${hard}`);
}

/** Whether the disk lacks what a tiny container needs. */
async function lacksSpace(path: string, need: keyof typeof MIN_FREE_BYTES): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize < MIN_FREE_BYTES[need];
  } catch {
    // A home that could not be made: what failed says more.
    return false;
  }
}

async function readVersion(runtime: string): Promise<string> {
  const text = await runProgram([runtime, "--version"]).catch((error: unknown) => errorText(error));
  const [line = ""] = text.split("\n", 1);
  return quoteUntrusted(line.replace(" version", ""));
}

interface Proven {
  readonly level: IsolationLevel;
  readonly proof: string;
  /** What a kernel of its own can do. */
  readonly finding: Finding | undefined;
  readonly carriesMemory: boolean;
}

/** Makes, limits, asks, freezes, thaws and ends one container; says what was seen. */
async function runTinyContainer(home: string, context: LaunchContext): Promise<Proven> {
  const id = newProbeId();
  const { trial } = context;
  const startedMs = performance.now();
  const isLimited = hasCgroups(context.cgroups) || context.usesDelegation;
  const pids = isLimited ? PROBE_PIDS.counted : PROBE_PIDS.shared;
  const memoryMb = PROBE_MEMORY_MB[context.flags === undefined ? "shared" : "own"];
  const limits = { memoryMb, cpus: 1, diskMb: 16, pids };
  // Any folder of the home does: what counts is that its file system can be mounted with other ids.
  const layers = [{ root: context.daemon }];
  const spec = {
    id,
    directory: join(home, id),
    layers,
    limits,
    hostname: "probe",
    egress: "none" as const,
    ...(trial !== undefined && { bootId: trial.bootId }),
  };
  const signal = signalAfter(ANSWER_TIMEOUT_MS);
  await using container = await startContainer(context, spec, signal);
  const plain = openCgroup(context.cgroups, id, spec.directory);
  const cgroup = context.flags === undefined ? plain : pausedByKernel(plain, spec.directory);
  const limit = await cgroup.readMemoryLimit();
  if (isLimited && limit !== memoryMb * BYTES_PER_MB) {
    throw new SandboxError("unavailable", `memory limit is ${limit}`);
  }
  await container.pause();
  if (!(await cgroup.isFrozen())) throw new SandboxError("unavailable", "pause has no effect");
  await container.resume();
  const ask = async (one: Container) => askDaemon(one.dialControl.bind(one), ANSWER_TIMEOUT_MS);
  await ask(container);
  const limited = isLimited ? "limited, " : "";
  const tookMs = Math.round(performance.now() - startedMs);
  const proof = `started, ${limited}paused and resumed in ${tookMs} ms`;
  const finding = trial && (await readFinding(spec.directory, trial));
  const carriesMemory =
    trial !== undefined && (await tryMemory(context, { home, spec, container, ask }));
  // The result is remembered, also when there is space again.
  if (trial !== undefined && !carriesMemory && (await lacksSpace(home, "memory"))) {
    throw diskFullError(`disk of ${home}`);
  }
  return { level: container.level, proof, finding, carriesMemory };
}
