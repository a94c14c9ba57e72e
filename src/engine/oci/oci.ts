/** The engine of the product: containers by an OCI runtime that was seen to work on this machine. */

import { join } from "node:path";
import { cleanUp } from "../../common/clean-up.ts";
import { SandboxError } from "../../common/errors.ts";
import { isRootless } from "../../common/privilege.ts";
import { locateDaemon, prepareDaemon, removeDeadDaemons } from "../daemon/daemon.ts";
import type { Container, ContainerSpec, Engine } from "../engine.ts";
import { holdIds } from "../host/id-ranges.ts";
import { findEgress, type EgressOptions, type EgressSupport } from "../network/egress-support.ts";
import { createRouters } from "../network/router.ts";
import { createUserRouters } from "../network/user-router.ts";
import { createBlankDisks } from "../storage/disk.ts";
import { makeLayer } from "../storage/layers.ts";
import { findDeadProbes, pruneDaemons } from "../storage/prune.ts";
import { squashInto } from "../storage/squash.ts";
import { findDisksFolder } from "../storage/store-image.ts";
import { openCgroup, readCgroupHost } from "./cgroups.ts";
import { readRecord, readStartTicks } from "./container-record.ts";
import { checkId, checkPlace } from "./container-spec.ts";
import { openContainer, type ContainerParts } from "./container.ts";
import { findDelegation } from "./delegation.ts";
import { createGuards } from "./guardian.ts";
import { bootContainer, startContainer, type LaunchContext } from "./launch.ts";
import type { ProbeOptions, ProbeResult } from "./probe-cache.ts";
import { probeMachine } from "./probe.ts";
import { haltContainer, removeContainer } from "./remove-container.ts";
import { createSeccompCache } from "./seccomp.ts";

export interface OciEngineOptions extends ProbeOptions {
  /** Undefined: containers have loopback alone. */
  readonly egress?: EgressOptions | undefined;
  /** Path of `guardian.sh`. */
  readonly guardian: string;
}

/** An engine for this machine. Nothing is started or looked at before the first call. */
export function createOciEngine(options: OciEngineOptions): Engine {
  const { egress: egressOptions, guardian, ...probing } = options;
  let known: Promise<ProbeResult> | undefined;
  const probe = async (freshness: "cached" | "fresh"): Promise<ProbeResult> => {
    if (freshness === "fresh") known = undefined;
    const running = (known ??= probeMachine(probing, freshness));
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
  const filters = createSeccompCache();
  const { perlDirectory } = options.daemon;
  const blanks = createBlankDisks(perlDirectory);
  const routers = isRootless() ? createUserRouters() : createRouters();
  let egress: Promise<EgressSupport> | undefined;
  const support = async (freshness: "cached" | "fresh" = "cached"): Promise<EgressSupport> => {
    if (freshness === "fresh") egress = undefined;
    return (egress ??= findEgress(egressOptions, perlDirectory));
  };
  const guards = createGuards(guardian);
  const launchContext = async (): Promise<LaunchContext> => {
    const { choice, report } = await probe("cached");
    if (choice === undefined) throw refusal(report.checks.find((check) => check.remedy));
    const [daemon, cgroups, { outside }, disksFolder] = await Promise.all([
      prepareDaemon(options.home, options.daemon),
      readCgroupHost(choice.usesDelegation ? findDelegation() : undefined),
      support(),
      findDisksFolder(options.home),
    ]);
    const { hasDeadlines } = guards;
    const kept = { outside, routers, filters, blanks, disksFolder, hasDeadlines };
    return { ...choice, cgroups, daemon, perlDirectory, ...kept };
  };
  const remove = async (id: string, directory: string): Promise<void> => {
    const cgroup = openCgroup(await readCgroupHost(), id, directory);
    await removeContainer(directory, cgroup, routers);
  };
  return {
    name: "oci",
    probe: async (freshness = "cached") => {
      const [{ report }, { check }] = await Promise.all([probe(freshness), support(freshness)]);
      return { ...report, checks: [...report.checks, check] };
    },
    create: async (spec, signal) =>
      guards.around(spec.id, async () => startContainer(await launchContext(), spec, signal)),
    guard: async (wanted) => guards.start(await readCgroupHost(), wanted),
    adopt: async (id, directory) =>
      guards.around(id, async () => adoptContainer(launchContext, id, directory)),
    squash: async (layers, kept, directory) =>
      makeLayer(directory, async (draft) => squashInto(draft, { layers, kept, perlDirectory })),
    prune: async (directories, tell) => {
      const names = await findDeadProbes(options.home);
      const removeProbe = async (id: string) => remove(id, join(options.home, id));
      const probes = await cleanUp({ kind: "tool", names, remove: removeProbe }, tell);
      const current = await locateDaemon(options.home, options.daemon);
      const daemons = await pruneDaemons(current, directories, tell);
      const drafts = await removeDeadDaemons(options.home, tell);
      return [...probes, ...daemons, ...drafts];
    },
    remove: async (id, directory) => {
      checkPlace(id, directory);
      await remove(id, directory);
    },
  };
}

function refusal(
  check: { readonly name: string; readonly detail: string; readonly remedy?: string } | undefined,
): SandboxError {
  if (check === undefined) return new SandboxError("unavailable", "no OCI runtime works here");
  const hint = check.remedy === undefined ? {} : { hint: check.remedy };
  return new SandboxError("unavailable", `${check.name}: ${check.detail}`, hint);
}

async function adoptContainer(
  launchContext: () => Promise<LaunchContext>,
  id: string,
  directory: string,
): Promise<Container | undefined> {
  checkId(id);
  const record = await readRecord(directory);
  if (record === undefined || record.id !== id) return undefined;
  const { idBase, diskIdBase } = record;
  const { cgroups, outside, perlDirectory, routers, hasDeadlines } = await launchContext();
  const cgroup = openCgroup(cgroups, id, directory);
  const boot = async (spec: ContainerSpec, signal: AbortSignal) =>
    bootContainer(await launchContext(), { spec, idBase, diskIdBase, cgroup }, signal);
  const shared = { outside, perlDirectory, routers, hasDeadlines };
  const parts = { directory, record, cgroup, boot, ...shared };
  if (record.isHalted) return adoptHalted(parts);
  if (readStartTicks(record.pid) !== record.startTicks) return undefined;
  return (await cgroup.isPopulated()) ? openContainer(parts) : undefined;
}

/** Finishes the halt, should the process that began it have died; keeps its ids after a restart. */
async function adoptHalted(parts: ContainerParts): Promise<Container | undefined> {
  const { directory, record, cgroup, routers } = parts;
  if (!(await holdIds(directory, record.idBase))) return undefined;
  await haltContainer(directory, cgroup, routers);
  return openContainer(parts);
}
