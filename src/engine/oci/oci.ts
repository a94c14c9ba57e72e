/** The engine of the product: containers by an OCI runtime that was seen to work on this machine. */

import { dirname, join } from "node:path";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import { isRootless } from "../../common/privilege.ts";
import { locateDaemon, prepareDaemon, removeDeadDaemons } from "../daemon/daemon.ts";
import type { Container, ContainerSpec, Engine, EngineCheck } from "../engine.ts";
import { findRestored } from "../gvisor/find-restored.ts";
import { notRestorable } from "../gvisor/memory-image.ts";
import { findProgram } from "../host/find-program.ts";
import { claimIds, holdIds } from "../host/id-ranges.ts";
import { gvisorCommand } from "../host/install-command.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { findEgress, rememberEgress, type EgressOptions } from "../network/egress-support.ts";
import { createRouters } from "../network/router.ts";
import { createUserRouters } from "../network/user-router.ts";
import { createBlankDisks } from "../storage/blank-disk.ts";
import { remountDisk } from "../storage/disk.ts";
import { makeLayer } from "../storage/layers.ts";
import { pruneDaemons, pruneProbes } from "../storage/prune.ts";
import { squashInto } from "../storage/squash.ts";
import { findDisksFolder } from "../storage/store-image.ts";
import { openCgroup, readCgroupHost, requireCgroups } from "./cgroups.ts";
import { SENTRY } from "./container-memory.ts";
import { isDiskLost, readRecord, writeRecord, type ContainerRecord } from "./container-record.ts";
import { checkId, checkPlace } from "./container-spec.ts";
import { openContainer, type ContainerParts } from "./container.ts";
import { findDelegation } from "./delegation.ts";
import { createGuards } from "./guardian.ts";
import type { Boot, LaunchContext } from "./launch-context.ts";
import { accessTo, bootContainer, startContainer } from "./launch.ts";
import type { ProbeOptions, ProbeResult } from "./probe-cache.ts";
import { probeMachine } from "./probe.ts";
import { createRemoval, haltBrokenStart, haltContainer } from "./remove-container.ts";
import { removeSaved, savedMemoryOf } from "./saved-memory.ts";
import { createSeccompCache } from "./seccomp.ts";
import { createSocketWatch } from "./socket-watch.ts";

export interface OciEngineOptions extends ProbeOptions {
  /** Undefined: containers have loopback alone. */
  readonly egress?: EgressOptions | undefined;
  /** Whether new images of memory are encrypted, with a key in the home. */
  readonly encryptsMemory?: boolean | undefined;
  /** Path of `guardian.sh`. */
  readonly guardian: string;
  readonly log?: Logger | undefined;
  /** How much of the machine's memory is free, from 0 to 1; undefined asks the kernel. */
  readonly freeShare?: () => number;
}

/** An engine for this machine. Nothing is started or looked at before the first call. */
export function createOciEngine(options: OciEngineOptions): Engine {
  const { egress: egressOptions, guardian, log, encryptsMemory = false, ...probing } = options;
  const keys = { home: options.home, isOn: encryptsMemory };
  const probe = rememberProbe(probing);
  // For containers that ask for a kernel of their own where others share that of the machine.
  const probeSentry = rememberProbe({ ...probing, runtime: SENTRY, requireLevel: "gvisor" });
  const filters = createSeccompCache();
  const sockets = createSocketWatch(options.freeShare);
  const { perlDirectory } = options.daemon;
  const blanks = createBlankDisks(perlDirectory);
  const routers = isRootless() ? createUserRouters() : createRouters(perlDirectory, log);
  const support = rememberEgress(async () => findEgress(egressOptions, perlDirectory));
  const guards = createGuards(guardian);
  const isOffline = egressOptions === undefined;
  const launchContext = async (isolation: ContainerSpec["isolation"]): Promise<LaunchContext> => {
    const found = await probe("cached");
    const isStrong = isolation === undefined || found.choice?.level === isolation;
    const { choice, report } = isStrong ? found : await probeSentry("cached");
    if (choice === undefined) {
      const missing = refusal(report.checks.find((check) => check.remedy));
      throw isStrong ? missing : refuseSentry(missing);
    }
    const [daemon, cgroups, { outside }, disksFolder] = await Promise.all([
      prepareDaemon(options.home, options.daemon),
      requireCgroups(choice.usesDelegation ? findDelegation() : undefined),
      support("cached"),
      findDisksFolder(options.home),
    ]);
    const { hasDeadlines } = guards;
    const kept = { outside, routers, filters, blanks, disksFolder, keys, hasDeadlines, sockets };
    return { ...choice, cgroups, daemon, perlDirectory, ...kept };
  };
  const remove = createRemoval(routers, async (id, directory) =>
    openCgroup(await readCgroupHost(), id, directory),
  );
  return {
    probe: async (freshness = "cached") => {
      const [{ report }, { check }] = await Promise.all([probe(freshness), support(freshness)]);
      const isFresh = freshness === "fresh" && report.isUsable && report.level !== "gvisor";
      const sentry = isFresh ? [await checkSentry(probeSentry)] : [];
      return { ...report, checks: [...report.checks, ...sentry, check] };
    },
    create: async (spec, signal) =>
      guards.create(spec.id, async () =>
        startContainer(await contextFor(launchContext, spec), spec, signal),
      ),
    guard: async (wanted) => guards.start(await readCgroupHost(), wanted),
    adopt: async (id, directory) =>
      guards.adopt(id, async () => adoptContainer(launchContext, { id, directory, isOffline })),
    squash: async (layers, kept, { directory, signal }) =>
      makeLayer(
        directory,
        async (draft) => squashInto(draft, { layers, kept, perlDirectory, signal }),
        signal,
      ),
    prune: async (directories, tell) => {
      const removeProbe = async (id: string) => remove(id, join(options.home, id));
      const probes = await pruneProbes(options.home, removeProbe, tell);
      const current = await locateDaemon(options.home, options.daemon);
      const daemons = await pruneDaemons(current, directories, tell);
      const drafts = await removeDeadDaemons(options.home, tell);
      return [...probes, ...daemons, ...drafts];
    },
    remove: async (id, directory) => {
      checkPlace(id, directory);
      await remove(id, directory);
      guards.release(id);
    },
  };
}

type Probe = (freshness: "cached" | "fresh") => Promise<ProbeResult>;

/** A probe that is made once; one that found nothing is made again. */
function rememberProbe(options: ProbeOptions): Probe {
  let known: Promise<ProbeResult> | undefined;
  return async (freshness) => {
    if (freshness === "fresh") known = undefined;
    const running = (known ??= probeMachine(options, freshness));
    try {
      const result = await running;
      // A machine that was repaired meanwhile is probed again.
      if (!result.report.isUsable) known = undefined;
      return result;
    } catch (error) {
      known = undefined;
      throw error;
    }
  };
}

/** Whether containers may have a kernel of their own here, beside others. */
async function checkSentry(probe: Probe): Promise<EngineCheck> {
  const name = "isolation gvisor";
  const path = findProgram(SENTRY);
  if (path === undefined) {
    const detail = "not offered: no runsc is installed";
    return { name, outcome: "ok", detail, remedy: gvisorCommand() };
  }
  const { report } = await probe("fresh");
  const trial = report.checks.find((check) => check.name === `runtime ${path}`);
  const detail = trial?.detail ?? "not tried";
  if (report.isUsable) return { ...trial, name, outcome: "ok", detail };
  return { name, outcome: "warning", detail, remedy: gvisorCommand() };
}

function refuseSentry(cause: SandboxError): SandboxError {
  return new SandboxError("unavailable", "isolation gvisor is not available here", {
    cause,
    hint: `${cause.message}; ${gvisorCommand()}`,
  });
}

/** Memory needs the kernel that it is of: to wait for one does not help. */
async function contextFor(
  launchContext: (isolation: ContainerSpec["isolation"]) => Promise<LaunchContext>,
  { isolation, memory }: ContainerSpec,
): Promise<LaunchContext> {
  try {
    return await launchContext(isolation);
  } catch (error) {
    const isMissing = hasErrorCode(error, "unavailable");
    throw memory !== undefined && isMissing ? notRestorable(error.message, error) : error;
  }
}

function refusal(
  check: { readonly name: string; readonly detail: string; readonly remedy?: string } | undefined,
): SandboxError {
  if (check === undefined) return new SandboxError("unavailable", "no OCI runtime works here");
  const hint = check.remedy === undefined ? {} : { hint: check.remedy };
  return new SandboxError("unavailable", `${check.name}: ${check.detail}`, hint);
}

async function adoptContainer(
  launchContext: (isolation: ContainerSpec["isolation"]) => Promise<LaunchContext>,
  {
    id,
    directory,
    isOffline,
  }: {
    readonly id: string;
    readonly directory: string;
    /** Whether no container may have internet access, also one that was made with it. */
    readonly isOffline: boolean;
  },
): Promise<Container | undefined> {
  checkId(id);
  const record = await readRecord(directory);
  if (record === undefined || record.id !== id || isDiskLost(record)) return undefined;
  const isolation = record.level === "gvisor" ? record.level : undefined;
  const context = await contextToAdopt(launchContext, record);
  const { outside, perlDirectory, routers, hasDeadlines, sockets } = context;
  const access = accessTo(context, { id, directory }, { isRelayed: isolation !== undefined });
  const { cgroup } = access;
  const bootWith = ({ idBase, diskIdBase }: ContainerRecord) => {
    return async (anew: Boot, signal: AbortSignal) => {
      const found = await contextFor(launchContext, { ...anew.spec, isolation });
      return bootContainer(found, { ...anew, idBase, diskIdBase, cgroup }, signal);
    };
  };
  const shared = { outside, perlDirectory, routers, hasDeadlines, sockets };
  const known = { directory, ...access, ...shared };
  const parts = { ...known, record, boot: bootWith(record) };
  if (record.isHalted) {
    const settled = await settleHalted(context, parts);
    return openContainer({ ...known, record: settled, boot: bootWith(settled) });
  }
  if (readStartTicks(record.pid) !== record.startTicks) return undefined;
  if (!(await cgroup.isPopulated())) return undefined;
  // A copy of its memory that was not finished, or from which it went on.
  await removeSaved(directory);
  // Its processes have the ids; the claim names the folder, which may have been moved.
  await holdIds(directory, record.idBase);
  await remountDisk(perlDirectory, directory);
  const needsEgress =
    outside === undefined ? isOffline : await routers.hasLost({ directory, record });
  return openContainer({ ...parts, needsEgress });
}

/** A halted container needs its runtime at its next boot only: without one it is found all the same. */
async function contextToAdopt(
  launchContext: (isolation: ContainerSpec["isolation"]) => Promise<LaunchContext>,
  { level, isHalted, memory }: ContainerRecord,
): Promise<LaunchContext> {
  const isolation = level === "gvisor" ? level : undefined;
  try {
    return await launchContext(isolation);
  } catch (error) {
    if (isolation === undefined || !isHalted || memory === "begun") throw error;
    return launchContext(undefined);
  }
}

/**
 * Finishes a halt, or ends a start, of a process that died. After a restart of the machine its ids may
 * be those of another container; then it gets others, as a container does whose disk is a copy.
 */
async function settleHalted(
  context: LaunchContext,
  parts: ContainerParts,
): Promise<ContainerRecord> {
  const { directory, cgroup, routers } = parts;
  const hasIds = await holdIds(directory, parts.record.idBase);
  const record = await settleMemory(context, parts);
  if (!record.isHalted) {
    await removeSaved(directory);
    return record;
  }
  const { unsyncedSince, ...synced } = hasIds ? record : await moveIds(directory, record);
  const halt = unsyncedSince === undefined ? haltContainer : haltBrokenStart;
  await halt(directory, cgroup, routers);
  if (unsyncedSince !== undefined || !hasIds) await writeRecord(directory, synced);
  // Drafts, and memory that is no longer that of the files.
  if (synced.memory === undefined) await removeSaved(directory);
  return synced;
}

async function moveIds(directory: string, record: ContainerRecord): Promise<ContainerRecord> {
  const { idBase, diskIdBase = idBase } = record;
  return { ...record, idBase: await claimIds(directory), diskIdBase };
}

/** On record: whether programs go on, can go on, or not; the process that knew has died. */
async function settleMemory(
  context: LaunchContext,
  { directory, record, cgroup }: ContainerParts,
): Promise<ContainerRecord> {
  if (record.memory !== "begun") return record;
  const { id } = record;
  const memory = savedMemoryOf(directory);
  const { home } = context.keys;
  const daemon = join(dirname(context.daemon), record.daemon);
  const place = { ...context, daemon, home, id, directory, record, cgroup, memory };
  const found = await findRestored(place);
  const { memory: _memory, ...files } = record;
  const settled =
    found === "unused"
      ? { ...files, memory: "saved" as const }
      : found === "unknown"
        ? files
        : found;
  await writeRecord(directory, settled);
  return settled;
}
