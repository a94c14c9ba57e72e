/**
 * Copies a container's writable layer, with plain ids, while its programs run; they are frozen
 * only for what they changed during the copy.
 */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { ID_RANGE, isRootless } from "../../common/privilege.ts";
import { step } from "../../common/steps.ts";
import { RUN_DIRECTORY } from "../host/id-ranges.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";
import type { Cgroup } from "../oci/process-group.ts";
import { DISK_NAMES, STACKS } from "./disk.ts";
import { TREES } from "./layers.ts";

/** Disks have gigabytes; a copy that takes longer than this is stuck. */
const COPY_TIMEOUT_MS = 10 * 60_000;

/** What the copier says when little is left to copy, and what it waits for then. */
const READY = "ready";
const GO = "go\n";
/** Of the copier's memory, which no limit of a sandbox holds: 500 for each name, and its path. */
const MAX_NAMES_BYTES = 1.5 * 1024 ** 3;
/**
 * What the copier says of trees that are no copy's: one that is deeper than paths are long, or than it
 * may open folders, and one with more names than it may remember. Hard links take next to nothing inside.
 */
const REFUSALS = [
  {
    said: "tree is too deep to copy",
    message: "a path in the sandbox is too long for a snapshot",
    hint: "remove the deepest folders and try again; paths may have about 3,900 bytes",
  },
  {
    said: "tree has too many names to copy",
    message: "the sandbox has too many files for a snapshot",
    hint: "remove files, or names of them, and try again; about 2,500,000 can be copied",
  },
] as const;

export interface SnapshotSource {
  /** The container's folder. */
  readonly directory: string;
  /** The first id of the files on its disk. */
  readonly idBase: number;
  readonly cgroup: Cgroup;
  readonly perlDirectory: string;
  /** Called when the container is frozen, before the last of its disk is copied or shared. */
  readonly onFrozen?: (() => Promise<void>) | undefined;
}

/** Copies the upper trees of the container's disk into a layer's folder. */
export async function copyUpper(source: SnapshotSource, target: string): Promise<void> {
  const ready = Promise.withResolvers<void>();
  const go = Promise.withResolvers<string>();
  const copy = runProgram(await toCommand(source, target), {
    timeoutMs: COPY_TIMEOUT_MS,
    input: go.promise,
    onLine: (line) => line === READY && ready.resolve(),
  });
  try {
    // One that ends before it is ready has failed.
    await Promise.race([ready.promise, copy]);
    await step("copy.ahead");
    await whileFrozen(source, async () => {
      await step("copy.frozen");
      go.resolve(GO);
      await copy;
      await step("copy.copied");
    });
    await step("copy.thawed");
  } catch (error) {
    throw toRefusal(error);
  } finally {
    // Without the word it ends by itself.
    go.resolve("");
    await copy.catch(() => undefined);
  }
}

/** Programs inside can go deeper than paths, and make more names, than the host can copy. */
function toRefusal(error: unknown): unknown {
  if (!(error instanceof SandboxError)) return error;
  const refusal = REFUSALS.find(({ said }) => error.message.includes(said));
  if (refusal === undefined) return error;
  const { message, hint } = refusal;
  return new SandboxError("failed_precondition", message, { cause: error, hint });
}

/** The container is frozen for the work; a paused one stays frozen after it. */
export async function whileFrozen(
  source: Pick<SnapshotSource, "cgroup" | "onFrozen">,
  work: () => Promise<void>,
): Promise<void> {
  const { cgroup } = source;
  const wasFrozen = await cgroup.isFrozen();
  await cgroup.freeze();
  try {
    await source.onFrozen?.();
    await work();
  } finally {
    if (!wasFrozen) await cgroup.thaw();
  }
}

/**
 * The container's ids are turned back into plain ones by the view that is copied from; where nothing
 * can be mapped, layers have the container's ids as they are.
 */
async function toCommand(source: SnapshotSource, target: string) {
  const disk = join(source.directory, DISK_NAMES.mount);
  const names = await readdir(disk);
  if (!names.includes(STACKS.root.upper)) {
    throw new SandboxError("unavailable", "the disk of the sandbox is not mounted");
  }
  const trees = (["root", "usr"] as const)
    .filter((tree) => names.includes(STACKS[tree].upper))
    .map((tree) => ({ source: join(disk, STACKS[tree].upper), target: join(target, TREES[tree]) }));
  const { perlDirectory } = source;
  if (isRootless()) {
    return launcherCommand(perlDirectory, [["exec", ...copierCommand(perlDirectory, trees)]]);
  }
  const views = trees.map((tree, index) => ({ ...tree, view: `upper${index}` }));
  const copies = views.map(({ view, target: to }) => ({ source: view, target: to }));
  return launcherCommand(perlDirectory, [
    ["isolate"],
    ["ids", String(source.idBase), "0", String(ID_RANGE)],
    ["mount", "tmpfs", RUN_DIRECTORY, "mode=0700,size=1m"],
    ["chdir", RUN_DIRECTORY],
    ...views.flatMap(({ source: tree, view }): LauncherStep[] => [
      ["mkdir", view],
      ["idmap", tree, view],
    ]),
    ["exec", ...copierCommand(perlDirectory, copies)],
  ]);
}

/** `copier.pl` with its trees; each is copied to a folder that is not there yet. */
function copierCommand(
  perlDirectory: string,
  trees: readonly { readonly source: string; readonly target: string }[],
): readonly [string, ...string[]] {
  const pairs = trees.flatMap(({ source, target }) => [source, target]);
  return perlCommand(perlDirectory, "copier", [process.arch, `${MAX_NAMES_BYTES}`, ...pairs]);
}
