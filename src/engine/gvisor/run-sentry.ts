/**
 * Starts a container with a kernel of its own: cgroup limits and the network are there before it,
 * because its kernel takes the addresses of its links over once, when it starts.
 */

import { randomBytes } from "node:crypto";
import { lstat, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ContainerSpec } from "../engine.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { runProgram } from "../host/run-program.ts";
import { networkFile } from "../network/namespace-file.ts";
import type { BundleHost } from "../oci/bundle.ts";
import { hasCgroups, type CgroupHost } from "../oci/cgroups.ts";
import type { Cgroup } from "../oci/process-group.ts";
import { limitSteps } from "../oci/process-limits.ts";
import { DISK_NAMES, STACKS } from "../storage/disk.ts";
import { hasFolder, stageOf, stageSteps } from "../storage/rootfs.ts";
import type { AbilityTrial } from "./abilities.ts";
import { STATE } from "./checkpoint.ts";
import { writeLimits } from "./limits.ts";
import { MEMORY_IMAGE, SEALED_FILE, type RestorableMemory } from "./memory-image.ts";
import { createSentryBundle } from "./sentry-bundle.ts";
import { createGiver } from "./take-image.ts";

/** A runtime that takes longer hangs; it is ended then, with what it began. */
const START_TIMEOUT_MS = 30_000;
/** A fork of ten has taken 105 s on two processors: a restore that is cut loses its memory. */
const RESTORE_TIMEOUT_MS = 120_000;
/** Gigabytes from a slow disk. */
const MAX_RESTORE_MS = 5 * 60_000;
/** Of a slow disk: 10 MB in a second. */
const BYTES_PER_MS = 10_000;
const SECRET_BYTES = 24;
/** In the container's folder. */
const BOOT_ID = "runtime/boot-id";

export interface SentryRun {
  readonly runtime: string;
  readonly flags: readonly string[];
  readonly cgroups: CgroupHost;
  /** The daemon's folder on the host. */
  readonly daemon: string;
  readonly perlDirectory: string;
  readonly spec: ContainerSpec;
  readonly idBase: number;
  readonly diskIdBase: number | undefined;
  readonly cgroup: Cgroup;
  readonly trial?: AbilityTrial | undefined;
}

/** A secret for connections to a container's daemon. */
export function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString("hex");
}

/** Makes the network namespace of a container, with a loopback that is up and no other link. */
export async function makeNetwork(directory: string): Promise<void> {
  const path = networkFile(directory);
  await writeFile(path, "", { mode: 0o600 });
  await runProgram(["unshare", `--net=${path}`, "ip", "link", "set", "dev", "lo", "up"]);
}

/** Writes limits and configuration; the folders of both are there. */
export async function prepareSentry(run: SentryRun, path: string, secret: string): Promise<void> {
  const { spec, idBase, cgroup, cgroups } = run;
  const stage = stageOf(spec.directory);
  const isLimited = hasCgroups(cgroups);
  if (isLimited) await writeLimits(cgroups, cgroup.path, spec.limits);
  const written = { root: join(spec.directory, DISK_NAMES.mount, STACKS.root.upper) };
  const hasTmp = await hasFolder("tmp", [...spec.layers, written]);
  const host: BundleHost = { architecture: process.arch, hasSwapLimit: cgroups.hasSwapLimit };
  const bootIdPath = join(spec.directory, BOOT_ID);
  // Runtimes of 2024, which lack this flag, end when a file of /proc is covered.
  const hasBootId = spec.bootId !== undefined && run.flags.includes("--allow-suid");
  if (hasBootId) await writeFile(bootIdPath, `${spec.bootId}\n`, { mode: 0o444 });
  const config = createSentryBundle({
    id: spec.id,
    hostname: spec.hostname,
    limits: spec.limits,
    idBase,
    rootPath: stage.root,
    daemonPath: stage.daemon,
    cgroupPath: isLimited ? cgroup.path : undefined,
    host,
    networkPath: networkFile(spec.directory),
    secret,
    hasTmp,
    ...(hasBootId && { bootIdPath }),
    binds: spec.binds ?? [],
    isTrial: run.trial !== undefined,
  });
  await writeFile(path, JSON.stringify(config), { mode: 0o600 });
}

export interface SentryStart extends Pick<RestorableMemory, "sealed"> {
  readonly diskSteps: readonly LauncherStep[];
}

/** Runs the runtime after `diskSteps`; it returns when the container runs. */
export async function runSentry(
  run: SentryRun,
  { diskSteps, sealed }: SentryStart,
  signal: AbortSignal,
): Promise<void> {
  const { spec, flags } = run;
  const { directory, id } = spec;
  const stage = stageOf(directory);
  const file = (name: string) => join(directory, "runtime", name);
  const state = join(stage.directory, STATE);
  const image = join(spec.memory ?? "", MEMORY_IMAGE);
  const files = { file: join(image, SEALED_FILE), directory: stage.directory };
  using giver = sealed && (await createGiver(files, sealed, signal));
  const path = giver === undefined ? image : join(stage.directory, giver.place);
  const begin = spec.memory === undefined ? ["run"] : ["restore", "--image-path", path];
  const words = [...begin, "--detach", "--bundle", directory, "--pid-file", file("pid"), id];
  const log = ["--log", file("log"), "--log-format", "json"];
  const command = launcherCommand(run.perlDirectory, [
    ...limitSteps(),
    ...diskSteps,
    ["mkdir", file(STATE)],
    ...stageSteps({
      stage,
      isMapped: true,
      ownsDaemon: true,
      layers: spec.layers,
      ...(spec.binds !== undefined && { binds: spec.binds }),
      idBase: run.idBase,
      disk: join(directory, DISK_NAMES.mount),
      diskIdBase: run.diskIdBase,
      daemon: run.daemon,
    }),
    // Runtimes of 2024 take a network namespace with a file that newer Linux shows in each for the
    // host's own. What is seen there belongs to the namespace.
    ["netns", networkFile(directory)],
    ["mount", "tmpfs", "/proc/sys/net/core", "mode=0755,size=4k"],
    ["mkdir", STATE],
    ["bind", file(STATE), STATE],
    ...(giver?.steps ?? []),
    ...enterSteps(run.cgroups, run.cgroup),
    ["null", "0"],
    ["null", "1"],
    ["null", "2"],
    ["exec", run.runtime, "--root", state, ...log, ...flags, ...words],
  ]);
  const timeoutMs = spec.memory === undefined ? START_TIMEOUT_MS : await restoreLimitMs(image);
  await runProgram(command, {
    signal,
    timeoutMs,
    ...(giver !== undefined && { serve: giver.serve }),
  });
}

/** With some states of programs the kernel hangs in a restore, which must not pass for a long read. */
export async function restoreLimitMs(image: string): Promise<number> {
  const names = await readdir(image).catch(() => []);
  const sizes = await Promise.all(names.map(async (name) => lstat(join(image, name))));
  const bytes = sizes.reduce((sum, { size }) => sum + size, 0);
  return Math.min(RESTORE_TIMEOUT_MS + Math.ceil(bytes / BYTES_PER_MS), MAX_RESTORE_MS);
}

/** Every tree: what the runtime finds there already it leaves alone. */
function enterSteps({ legacy, unified }: CgroupHost, cgroup: Cgroup): LauncherStep[] {
  const trees = [...legacy.map(({ path }) => path), ...(unified === undefined ? [] : [unified])];
  return [...new Set(trees)].map((tree) => ["enter", join(tree, cgroup.path, "cgroup.procs")]);
}
