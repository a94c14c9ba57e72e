/** Copies a container's writable layer to a layer of its own, with plain ids, synced to disk. */

import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ID_RANGE } from "./bundle.ts";
import { DISK_NAMES, STACKS } from "./disk.ts";
import type { Layer } from "./engine.ts";
import { RUN_DIRECTORY } from "./ids.ts";
import { launcherCommand } from "./launcher.ts";
import { runTool } from "./tool.ts";

/** Disks have gigabytes; a copy that takes longer than this stands still. */
const COPY_TIMEOUT_MS = 10 * 60_000;

export interface SnapshotSource {
  /** The container's folder. */
  readonly directory: string;
  readonly idBase: number;
}

/** Copies to `<target>.part`; nothing may write to the source meanwhile. */
export async function copyLayer(source: SnapshotSource, target: string): Promise<void> {
  const draft = draftOf(target);
  const disk = join(source.directory, DISK_NAMES.mount);
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true, mode: 0o700 });
  // What programs wrote may still be in memory.
  await runTool(["sync", "-f", disk], { timeoutMs: COPY_TIMEOUT_MS });
  const uppers = new Set(await readdir(disk));
  for (const stack of Object.values(STACKS)) {
    if (!uppers.has(stack.upper)) continue;
    await copyTree(source, join(disk, stack.upper), join(draft, stack.upper));
  }
}

/** Makes the copy durable and gives it its name; after this the layer can be promised. */
export async function publishLayer(target: string): Promise<Layer> {
  const draft = draftOf(target);
  await runTool(["sync", "-f", draft], { timeoutMs: COPY_TIMEOUT_MS });
  await rename(draft, target);
  await syncFolder(dirname(target));
  const trees = new Set(await readdir(target));
  const root = join(target, STACKS.root.upper);
  return trees.has(STACKS.usr.upper) ? { root, usr: join(target, STACKS.usr.upper) } : { root };
}

/** Removes what a failed snapshot left. */
export async function discardLayer(target: string): Promise<void> {
  await rm(draftOf(target), { recursive: true, force: true });
}

function draftOf(target: string): string {
  return `${target}.part`;
}

/** The container's ids are turned back into plain ones by the view that is copied from. */
async function copyTree(source: SnapshotSource, from: string, to: string): Promise<void> {
  const command = launcherCommand([
    ["isolate"],
    ["ids", String(source.idBase), "0", String(ID_RANGE)],
    ["mount", "tmpfs", RUN_DIRECTORY, "mode=0700,size=1m"],
    ["chdir", RUN_DIRECTORY],
    ["mkdir", "upper"],
    ["idmap", from, "upper"],
    ["exec", "cp", "-a", "--reflink=auto", "--sparse=always", "upper", to],
  ]);
  await runTool(command, { timeoutMs: COPY_TIMEOUT_MS });
}

async function syncFolder(directory: string): Promise<void> {
  const folder = await open(directory, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
