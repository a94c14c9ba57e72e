/** Starts one container: folder, ids, disk and configuration, then the runtime through the launcher. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { allEnded } from "../../common/concurrency.ts";
import { causeCode, errorText, SandboxError, toSandboxError } from "../../common/errors.ts";
import { readIfThere } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import { step } from "../../common/steps.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import type { Container, ContainerSpec, DiskCopy, IsolationLevel } from "../engine.ts";
import { claimIds } from "../host/id-ranges.ts";
import { runProgram } from "../host/run-program.ts";
import { SOCKET_NAMES } from "../network/container-sockets.ts";
import { resolverFile } from "../network/router-rules.ts";
import type { HostNetwork, Routers } from "../network/router.ts";
import { restoreDisk } from "../storage/disk-copy.ts";
import {
  type BlankDisks,
  DISK_NAMES,
  firstDiskSteps,
  makeDisk,
  mountDisk,
  STACKS,
} from "../storage/disk.ts";
import { checkBinds, checkLayers, hasUsr, stageOf, stageSteps } from "../storage/rootfs.ts";
import { bindFault } from "./bind-paths.ts";
import { coverBootId } from "./boot-id.ts";
import { createBundle, limitSteps } from "./bundle.ts";
import { cgroupSteps, hasCgroups, openCgroup, type CgroupHost } from "./cgroups.ts";
import { readStartTicks, writeRecord, type ContainerRecord } from "./container-record.ts";
import { checkSpec } from "./container-spec.ts";
import { openContainer } from "./container.ts";
import { launcherCommand, type LauncherStep } from "./launcher.ts";
import type { Cgroup } from "./process-group.ts";
import { FOLDER_NAMES, haltContainer, removeContainer } from "./remove-container.ts";
import type { SeccompCache } from "./seccomp.ts";
import { verifyGroup } from "./user-cgroup.ts";
import { readLevel, requireLevel, verifyMounts } from "./verify-container.ts";

/** What the launcher says when a folder on the way to a bind is a link or a file. */
const BIND_STEP = "launcher: bind path:";
/** A runtime that takes longer hangs; it is ended then, with what it began. */
const START_TIMEOUT_MS = 30_000;
/** The runtime that was chosen. */
export interface RuntimeChoice {
  /** Path of its program. */
  readonly runtime: string;
  /** What it was seen to give; less is refused. */
  readonly level: IsolationLevel;
  /** Whether containers were seen to be limited in cgroups that are delegated to this user. */
  readonly usesDelegation: boolean;
}

export interface LaunchContext extends RuntimeChoice {
  readonly cgroups: CgroupHost;
  /** The daemon's folder on the host. */
  readonly daemon: string;
  /** Where the perl programs lie. */
  readonly perlDirectory: string;
  /** Undefined where containers have loopback alone. */
  readonly outside: HostNetwork | undefined;
  readonly routers: Routers;
  readonly filters: SeccompCache;
  readonly blanks: BlankDisks;
  /** Where images of disks are made; undefined for the folders of their containers. */
  readonly disksFolder: string | undefined;
  /** Whether a guardian reads deadlines. */
  readonly hasDeadlines: boolean;
}

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
  await checkLayers(spec.layers);
  await checkBinds(spec.binds ?? [], spec.layers);
  const cgroup = openCgroup(context.cgroups, spec.id, spec.directory);
  await makeFolder(spec.directory);
  try {
    await step("container.folder");
    const idBase = await claimIds(spec.directory);
    await step("container.ids");
    const { directory, disk } = spec;
    const { outside, perlDirectory, routers, hasDeadlines } = context;
    const claim = { spec, idBase, diskIdBase: disk?.idBase, cgroup };
    const record =
      disk === undefined
        ? await launchEmpty(context, claim, signal)
        : await launchRestored(context, { claim, disk }, signal);
    const boot = async (anew: ContainerSpec, limit: AbortSignal) =>
      bootContainer(context, { ...claim, spec: anew }, limit);
    const shared = { outside, perlDirectory, routers, hasDeadlines };
    return openContainer({ directory, record, cgroup, boot, ...shared });
  } catch (error) {
    await cleanUp(context, { spec, cgroup, reason: error });
    throw toSandboxError(error, "container did not start");
  }
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
 * Starts a halted container anew on the disk in its folder. On any failure it is halted again.
 * @throws SandboxError invalid_argument, unavailable, canceled, deadline_exceeded
 */
export async function bootContainer(
  context: LaunchContext,
  claim: Claim,
  signal: AbortSignal,
): Promise<ContainerRecord> {
  const { spec, cgroup } = claim;
  checkSpec(spec);
  try {
    return await launchWritten(context, claim, signal);
  } catch (error) {
    await haltContainer(spec.directory, cgroup, context.routers);
    throw toSandboxError(error, "container did not start");
  }
}

interface Preparation {
  readonly claim: Claim;
  /** Resolves when there is a disk. */
  readonly disk: Promise<void>;
  /** What is to be done with it before the container's own steps. */
  readonly diskSteps: readonly LauncherStep[];
}

/** From a folder with ids to a container that runs and is on record. */
async function launch(
  context: LaunchContext,
  { claim, disk, diskSteps }: Preparation,
  signal: AbortSignal,
): Promise<ContainerRecord> {
  const { spec, idBase, diskIdBase, cgroup } = claim;
  const { runtime, filters } = context;
  const filter = filters.get(runtime);
  await allEnded([disk, writeConfig(context, claim, filter), cgroup.make(spec.limits)]);
  await step("launch.prepared");
  const pid = await runRuntime(context, { claim, diskSteps }, signal);
  await step("launch.running");
  const startTicks = readStartTicks(pid);
  if (startTicks === undefined) throw new SandboxError("unavailable", "container ended at once");
  const level = readLevel({ pid, idBase, runtime: context.runtime });
  requireLevel(level, context.level);
  verifyGroup(pid, cgroup);
  // A kernel of its own has mounts of its own, which the host does not see.
  if (level !== "gvisor") verifyMounts(pid, spec);
  const state = join(spec.directory, FOLDER_NAMES.runtime, "state", spec.id);
  if (filter === undefined) await filters.learn(runtime, state, pid);
  else filters.verify(runtime, pid);
  const daemon = basename(context.daemon);
  const ids = { idBase, ...(diskIdBase !== undefined && { diskIdBase }) };
  const record = { id: spec.id, pid, startTicks, ...ids, level, isHalted: false, daemon };
  await writeRecord(spec.directory, record);
  await step("launch.recorded");
  const { outside, routers } = context;
  // Each waits for a program of its own, most of the time.
  await allEnded([
    coverBootId({ ...context, spec, pid, level }, signal),
    routers.setEgress({ directory: spec.directory, record, outside }, spec.egress),
  ]);
  await step("launch.connected");
  return record;
}

/** A clean-up that fails must not hide why it was needed. */
async function cleanUp(
  { routers }: LaunchContext,
  failed: { readonly spec: ContainerSpec; readonly cgroup: Cgroup; readonly reason: unknown },
): Promise<void> {
  try {
    await removeContainer(failed.spec.directory, failed.cgroup, routers);
  } catch (error) {
    const cause = new AggregateError([failed.reason, error], "start and clean-up failed");
    throw new SandboxError("internal", `clean-up failed: ${errorText(error)}`, { cause });
  }
}

async function makeFolder(directory: string): Promise<void> {
  try {
    await mkdir(directory, { mode: 0o700 });
  } catch (error) {
    if (causeCode(error) !== "EEXIST") throw error;
    throw new SandboxError("already_exists", "the folder of the container exists", {
      cause: error,
    });
  }
}

/** A container that is being started, and what it has already. */
export interface Claim {
  readonly spec: ContainerSpec;
  readonly idBase: number;
  /** The first id of the files on its disk, where that began as the copy of another one. */
  readonly diskIdBase: number | undefined;
  readonly cgroup: Cgroup;
}

async function writeConfig(
  context: LaunchContext,
  claim: Claim,
  filter: string | undefined,
): Promise<void> {
  const { spec, idBase, cgroup } = claim;
  const stage = stageOf(spec.directory);
  const config = createBundle({
    id: spec.id,
    hostname: spec.hostname,
    limits: spec.limits,
    idBase,
    rootPath: stage.root,
    daemonPath: stage.daemon,
    usersPath: stage.users,
    cgroupPath: cgroup.path === "" ? undefined : cgroup.path,
    isCounted: context.cgroups.delegation !== undefined,
    filter,
    host: {
      architecture: process.arch,
      hasSwapLimit: context.cgroups.hasSwapLimit,
    },
  });
  await mkdir(join(spec.directory, FOLDER_NAMES.runtime), { mode: 0o700 });
  const path = join(spec.directory, FOLDER_NAMES.config);
  await writeFile(path, JSON.stringify(config), { mode: 0o600 });
}

async function runRuntime(
  context: LaunchContext,
  { claim, diskSteps }: Pick<Preparation, "claim" | "diskSteps">,
  signal: AbortSignal,
): Promise<number> {
  const { directory, id } = claim.spec;
  const file = (name: string) => join(directory, FOLDER_NAMES.runtime, name);
  const steps: LauncherStep[] = [
    ...diskSteps,
    ["chdir", directory],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    ...stageSteps({
      stage: stageOf(directory),
      isMapped: !isRootless(),
      layers: claim.spec.layers,
      ...(claim.spec.binds !== undefined && { binds: claim.spec.binds }),
      idBase: claim.idBase,
      disk: join(directory, DISK_NAMES.mount),
      diskIdBase: claim.diskIdBase,
      daemon: context.daemon,
    }),
    ...limitSteps(),
    ...cgroupSteps(context.cgroups, claim.cgroup),
    ["null", "0"],
    ["null", "1"],
    ["null", "2"],
  ];
  const manager = hasCgroups(context.cgroups) ? [] : ["--cgroup-manager", "disabled"];
  const runtime = [context.runtime, "--root", file("state"), "--log", file("log")] as const;
  const run = ["run", "--detach", "--bundle", directory, "--pid-file", file("pid")] as const;
  const command = launcherCommand(context.perlDirectory, [
    ...steps,
    ["exec", ...runtime, "--log-format", "json", ...manager, ...run, "--preserve-fds", "2", id],
  ]);
  try {
    await runProgram(command, { signal, timeoutMs: START_TIMEOUT_MS });
  } catch (error) {
    throw await explainFailure(error, file("log"));
  }
  return Number(await readFile(file("pid"), "utf8"));
}

/** The runtime writes its complaint to its log; its standard error is not ours any more by then. */
async function explainFailure(error: unknown, log: string): Promise<unknown> {
  if (!(error instanceof SandboxError) || error.code !== "unavailable") return error;
  if (error.message.includes(BIND_STEP)) {
    return bindFault("nothing can be mounted at the path of a volume: it is not a real folder");
  }
  const text = (await readIfThere(log)) ?? "";
  const messages = [...text.matchAll(/"msg":("(?:[^"\\]|\\.)*")/g)].map((match) => match[1] ?? "");
  // Without a word in its log it did not even understand the call.
  const reason = messages.at(-1) ?? error.message;
  return new SandboxError("unavailable", `runtime failed: ${quoteUntrusted(reason)}`, {
    cause: error,
  });
}
