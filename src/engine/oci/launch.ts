/** Starts one container: folder, ids, disk and configuration, then the runtime through the launcher. */

import { mkdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isCode, SandboxError, toSandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { Container, ContainerSpec, DiskCopy } from "../engine.ts";
import { keepRelay } from "../gvisor/keep-relay.ts";
import { createSentryLaunch } from "../gvisor/launch-sentry.ts";
import { pausedByKernel } from "../gvisor/relay.ts";
import { claimIds } from "../host/id-ranges.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { resolverFile } from "../network/router-rules.ts";
import { restoreDisk } from "../storage/disk-copy.ts";
import { DISK_NAMES, firstDiskSteps, makeDisk, mountDisk, STACKS } from "../storage/disk.ts";
import { checkBinds, checkLayers, hasUsr } from "../storage/rootfs.ts";
import { openCgroup } from "./cgroups.ts";
import { findRestoreFault, memoryOf, requireMemory } from "./container-memory.ts";
import { writeRecord, type ContainerRecord } from "./container-record.ts";
import { checkSpec } from "./container-spec.ts";
import { openContainer, type ContainerParts } from "./container.ts";
import type { Boot, Claim, LaunchContext, Preparation } from "./launch-context.ts";
import { createSharedLaunch } from "./launch-shared.ts";
import type { Cgroup } from "./process-group.ts";
import { haltBrokenStart, removeContainer } from "./remove-container.ts";
import { savedMemoryOf } from "./saved-memory.ts";

/**
 * Starts a container. On any failure nothing is left behind.
 * @throws SandboxError invalid_argument, already_exists, unavailable, canceled, deadline_exceeded
 */
export async function startContainer(
  context: LaunchContext,
  spec: ContainerSpec,
  signal: AbortSignal,
): Promise<Container> {
  checkSpec(spec);
  requireMemory(context, spec);
  await checkLayers(spec.layers);
  await checkBinds(spec.binds ?? [], spec.layers);
  const access = accessTo(context, spec, { isRelayed: context.flags !== undefined });
  const { cgroup } = access;
  await makeFolder(spec.directory);
  try {
    await step("container.folder");
    const idBase = await claimIds(spec.directory);
    await step("container.ids");
    const { directory, disk } = spec;
    const { outside, perlDirectory, routers, hasDeadlines, sockets } = context;
    const claim = { spec, idBase, diskIdBase: disk?.idBase, cgroup };
    const record =
      disk === undefined
        ? await launchEmpty(context, claim, signal)
        : await launchRestored(context, { claim, disk }, signal);
    const boot = async (anew: Boot, limit: AbortSignal) =>
      bootContainer(context, { ...claim, ...anew }, limit);
    const shared = { outside, perlDirectory, routers, hasDeadlines, sockets };
    return openContainer({ directory, record, boot, ...access, ...shared });
  } catch (error) {
    throw await endFailedStart({
      directory: spec.directory,
      cgroup,
      routers: context.routers,
      reason: error,
    });
  }
}

/** How a container is stopped and reached, by a relay where it has a kernel of its own, and its memory. */
export function accessTo(
  context: LaunchContext,
  { id, directory }: Pick<ContainerSpec, "id" | "directory">,
  { isRelayed }: { readonly isRelayed: boolean },
): Pick<ContainerParts, "cgroup" | "reach" | "memory" | "findRestoreFault"> {
  const { cgroups, daemon, perlDirectory } = context;
  const plain = openCgroup(cgroups, id, directory);
  const memory = memoryOf(context);
  const findFault = async () => findRestoreFault(context, savedMemoryOf(directory));
  const shared = { memory, findRestoreFault: findFault };
  if (!isRelayed) return { cgroup: plain, ...shared };
  const reach = keepRelay({ directory, perlDirectory, cgroups, daemons: dirname(daemon) });
  return { cgroup: pausedByKernel(plain, directory, reach), reach, ...shared };
}

async function launchEmpty(
  context: LaunchContext,
  claim: Claim,
  signal: AbortSignal,
): Promise<ContainerRecord> {
  const { spec, idBase } = claim;
  const { directory, layers, limits } = spec;
  const { blanks, outside } = context;
  const place = context.disksFolder;
  const disk = makeDisk({ directory, place, sizeMb: limits.diskMb, blanks, signal });
  const resolver = outside && resolverFile(outside.resolvers.length);
  const diskSteps = firstDiskSteps(directory, { idBase, hasUsr: hasUsr(layers), resolver });
  return launch(context, { claim, disk, diskSteps }, signal);
}

async function launchRestored(
  context: LaunchContext,
  { claim, disk }: { readonly claim: Claim; readonly disk: DiskCopy },
  signal: AbortSignal,
): Promise<ContainerRecord> {
  const { directory } = claim.spec;
  await restoreDisk(disk, { directory, place: context.disksFolder, signal });
  return launchWritten(context, claim, signal);
}

/** On a disk to which programs have written. */
async function launchWritten(
  context: LaunchContext,
  claim: Claim,
  signal: AbortSignal,
): Promise<ContainerRecord> {
  const { spec } = claim;
  await mountDisk(context.perlDirectory, spec.directory, signal);
  await step("boot.mounted");
  // What programs made of the folders that a runtime touches counts as the topmost layer.
  const written = { root: join(spec.directory, DISK_NAMES.mount, STACKS.root.upper) };
  const layers = [...spec.layers, written];
  await checkLayers(layers);
  await checkBinds(spec.binds ?? [], layers);
  return launch(context, { claim, disk: Promise.resolve(), diskSteps: [] }, signal);
}

/**
 * Starts a halted container on the disk in its folder. On any failure it is halted again.
 * @throws SandboxError invalid_argument, unavailable, canceled, deadline_exceeded
 */
export async function bootContainer(
  context: LaunchContext,
  claim: Claim,
  signal: AbortSignal,
): Promise<ContainerRecord> {
  const { spec, cgroup, progress } = claim;
  checkSpec(spec);
  requireMemory(context, spec);
  try {
    return await launchWritten(context, claim, signal);
  } catch (error) {
    const failed = { directory: spec.directory, cgroup, routers: context.routers, reason: error };
    throw await endFailedStart(failed, async (...container) => {
      try {
        await progress?.failed(error);
      } finally {
        await haltBrokenStart(...container);
      }
    });
  }
}

/** From a folder with ids to a container that runs and is on record. */
async function launch(
  context: LaunchContext,
  preparation: Preparation,
  signal: AbortSignal,
): Promise<ContainerRecord> {
  const { spec, idBase, diskIdBase, progress } = preparation.claim;
  const { flags } = context;
  const steps =
    flags === undefined
      ? createSharedLaunch(context, preparation, signal)
      : createSentryLaunch({ ...context, flags }, preparation, signal);
  await steps.prepare();
  await step("launch.prepared");
  await progress?.begun();
  const pid = await steps.run();
  progress?.ran();
  await step("launch.running");
  const startTicks = readStartTicks(pid);
  if (startTicks === undefined) throw new SandboxError("unavailable", "container ended at once");
  const proven = await steps.prove(pid);
  const daemon = basename(context.daemon);
  const ids = { idBase, ...(diskIdBase !== undefined && { diskIdBase }) };
  const record = { id: spec.id, pid, startTicks, ...ids, isHalted: false, daemon, ...proven };
  await writeRecord(spec.directory, record);
  await step("launch.recorded");
  await steps.connect(record);
  await step("launch.connected");
  return record;
}

interface FailedStart {
  readonly directory: string;
  readonly cgroup: Cgroup;
  readonly routers: LaunchContext["routers"];
  readonly reason: unknown;
}

/**
 * Removes what there is of a container, or halts it; returns why it did not start. A clean-up that fails
 * must not hide that: `Engine.remove` is called again for what is left, and the next start halts again.
 */
export async function endFailedStart(
  failed: FailedStart,
  end: typeof removeContainer = removeContainer,
): Promise<SandboxError> {
  const { directory, cgroup, routers, reason } = failed;
  const fault = toSandboxError(reason, "container did not start");
  try {
    await end(directory, cgroup, routers);
    return fault;
  } catch (error) {
    const { code, message, hint, word } = fault;
    const cause = new AggregateError([reason, error], "start and clean-up failed");
    const more = { ...(hint !== undefined && { hint }), ...(word !== undefined && { word }) };
    return new SandboxError(code, message, { ...more, cause });
  }
}

async function makeFolder(directory: string): Promise<void> {
  try {
    await mkdir(directory, { mode: 0o700 });
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
    throw new SandboxError("already_exists", "the folder of the container exists", {
      cause: error,
    });
  }
}
