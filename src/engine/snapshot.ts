/** Copies a container's writable layer, with plain ids; nothing may write to it meanwhile. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ID_RANGE } from "../common/privilege.ts";
import { isRootless } from "../common/privilege.ts";
import { RUN_DIRECTORY } from "./claims.ts";
import { DISK_NAMES, STACKS } from "./disk.ts";
import { launcherCommand } from "./launcher.ts";
import { TREES } from "./layers.ts";
import { runTool } from "./tool.ts";

/** Disks have gigabytes; a copy that takes longer than this stands still. */
const COPY_TIMEOUT_MS = 10 * 60_000;

export interface SnapshotSource {
  /** The container's folder. */
  readonly directory: string;
  readonly idBase: number;
}

/** Copies the upper trees of the container's disk into a layer's folder. */
export async function copyUpper(source: SnapshotSource, target: string): Promise<void> {
  const disk = join(source.directory, DISK_NAMES.mount);
  // What programs wrote may still be in memory.
  await runTool(["sync", "-f", disk], { timeoutMs: COPY_TIMEOUT_MS });
  const names = await readdir(disk);
  const copy = async (tree: keyof typeof TREES) =>
    copyTree(source.idBase, join(disk, STACKS[tree].upper), join(target, TREES[tree]));
  await copy("root");
  if (names.includes(STACKS.usr.upper)) await copy("usr");
}

/**
 * The container's ids are turned back into plain ones by the view that is copied from; where nothing
 * can be mapped, layers have the container's ids as they are.
 */
async function copyTree(idBase: number, from: string, to: string): Promise<void> {
  const copy = ["cp", "-a", "--reflink=auto", "--sparse=always"] as const;
  if (isRootless()) {
    await runTool([...copy, from, to], { timeoutMs: COPY_TIMEOUT_MS });
    return;
  }
  const command = launcherCommand([
    ["isolate"],
    ["ids", String(idBase), "0", String(ID_RANGE)],
    ["mount", "tmpfs", RUN_DIRECTORY, "mode=0700,size=1m"],
    ["chdir", RUN_DIRECTORY],
    ["mkdir", "upper"],
    ["idmap", from, "upper"],
    ["exec", ...copy, "upper", to],
  ]);
  await runTool(command, { timeoutMs: COPY_TIMEOUT_MS });
}
