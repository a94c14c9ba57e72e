/**
 * How a layer comes into being: it is written beside its place, synced to disk and then given its
 * name, so that a layer that can be seen is whole, whatever ends this process or the machine.
 */

import { mkdir, readdir, rename } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { TellFailure } from "../../common/clean-up.ts";
import {
  COPY_FULL_PATTERN,
  diskFullError,
  errorText,
  isCode,
  SandboxError,
  toSandboxError,
} from "../../common/errors.ts";
import { isThere, syncFolder } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import { openTree } from "../../common/tree-modes.ts";
import type { Layer } from "../engine.ts";
import { newDraft, removeDeadDrafts } from "../host/drafts.ts";
import { runProgram } from "../host/run-program.ts";

/** The trees of a layer in its folder; `usr` is there where `/usr` is stacked separately. */
export const TREES = { root: "root", usr: "usr" } as const;

export const LAYERS = "layers";

/** Built-in templates: the names of their layers begin so, and the lock of their builder is named so. */
const BUILT_INS = ["base", "host", "image", "interpreter"] as const;

/** Layers have gigabytes, and the disk below may be slow. */
const SYNC_TIMEOUT_MS = 10 * 60_000;

/**
 * Makes a layer in `target` by filling a draft of its own; a failure leaves neither. Its root is open to
 * all accounts, so that one that is not has lost modes.
 * @throws SandboxError already_exists when there is such a layer, canceled
 */
export async function makeLayer(
  target: string,
  fill: (draft: string) => Promise<void>,
  signal?: AbortSignal,
): Promise<Layer> {
  await makeWhole(target, {
    fill: async (draft) => {
      await fill(draft);
      await openTree(join(draft, TREES.root));
    },
    sync: async (draft) =>
      void (await runProgram(["sync", "-f", draft], { timeoutMs: SYNC_TIMEOUT_MS })),
    signal,
  });
  return openLayer(target);
}

export interface WholeFolder {
  fill(draft: string): Promise<void>;
  /** Brings what was filled in to disk. */
  sync(draft: string): Promise<void>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Makes a folder that can be seen only when it is complete and durable.
 * @throws SandboxError as `makeLayer`.
 */
export async function makeWhole(target: string, folder: WholeFolder): Promise<void> {
  if (await isThere(target)) throw alreadyThere(target);
  const draft = newDraft(target);
  try {
    await mkdir(draft, { recursive: true, mode: 0o700 });
    await step("layer.begun");
    await folder.fill(draft);
    folder.signal?.throwIfAborted();
    await folder.sync(draft);
    await step("layer.synced");
    await giveName(draft, target);
    await step("layer.renamed");
    await syncFolder(dirname(target));
    await step("layer.durable");
  } catch (error) {
    await removeTree(draft);
    throw toLayerFault(error, dirname(target));
  }
}

/** A disk without inodes has bytes left, and is full only until the draft is gone. */
function toLayerFault(error: unknown, folder: string): SandboxError {
  const isTold = error instanceof SandboxError && error.code === "resource_exhausted";
  const isFull = isCode(error, "ENOSPC") || COPY_FULL_PATTERN.test(errorText(error));
  if (isFull && !isTold) return diskFullError(`disk of ${folder}`, error);
  return toSandboxError(error, "layer was not made");
}

async function giveName(draft: string, target: string): Promise<void> {
  try {
    await rename(draft, target);
  } catch (error) {
    if (isCode(error, "ENOTEMPTY", "EEXIST")) throw alreadyThere(target, error);
    throw error;
  }
}

function alreadyThere(target: string, cause?: unknown): SandboxError {
  return new SandboxError("already_exists", `layer ${basename(target)} exists`, { cause });
}

async function openLayer(target: string): Promise<Layer> {
  const names = await readdir(target);
  const root = join(target, TREES.root);
  return names.includes(TREES.usr) ? { root, usr: join(target, TREES.usr) } : { root };
}

/**
 * Removes the drafts of layers of built-in templates that dead builders left; a living one holds
 * its lock. Returns their names.
 */
export async function removeDeadLayers(home: string, tell: TellFailure): Promise<string[]> {
  const folder = join(home, LAYERS);
  const removed: string[] = [];
  for (const lock of BUILT_INS) {
    removed.push(...(await removeDeadDrafts({ home, folder, prefix: `${lock}-`, lock }, tell)));
  }
  return removed;
}
