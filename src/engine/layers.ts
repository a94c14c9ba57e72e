/**
 * How a layer comes into being: it is written beside its place, synced to disk and then given its
 * name, so that a layer that can be seen is whole, whatever ends this process or the machine.
 */

import { access, mkdir, readdir, rename } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { causeCode, SandboxError, toSandboxError } from "../common/errors.ts";
import { removeTree } from "../common/remove-tree.ts";
import { step } from "../common/steps.ts";
import type { Layer } from "./engine.ts";
import { draftOf, syncFolder } from "./files.ts";
import { runTool } from "./tool.ts";

/** The trees of a layer in its folder; `usr` is there where `/usr` is stacked separately. */
export const TREES = { root: "root", usr: "usr" } as const;

/** Layers have gigabytes, and the disk below may be slow. */
const SYNC_TIMEOUT_MS = 10 * 60_000;

/**
 * Makes a layer in `target` by filling its draft; a failure leaves neither.
 * @throws SandboxError already_exists when there is such a layer.
 */
export async function makeLayer(
  target: string,
  fill: (draft: string) => Promise<void>,
): Promise<Layer> {
  if (await isThere(target))
    throw new SandboxError("already_exists", `layer ${basename(target)} exists`);
  const draft = draftOf(target);
  try {
    await removeTree(draft);
    await mkdir(draft, { recursive: true, mode: 0o700 });
    await step("layer.begun");
    await fill(draft);
    await runTool(["sync", "-f", draft], { timeoutMs: SYNC_TIMEOUT_MS });
    await step("layer.synced");
    await rename(draft, target);
    await step("layer.renamed");
    await syncFolder(dirname(target));
    await step("layer.durable");
    return await openLayer(target);
  } catch (error) {
    await removeTree(draft);
    throw toSandboxError(error, "layer was not made");
  }
}

async function openLayer(target: string): Promise<Layer> {
  const names = await readdir(target);
  const root = join(target, TREES.root);
  return names.includes(TREES.usr) ? { root, usr: join(target, TREES.usr) } : { root };
}

async function isThere(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (causeCode(error) === "ENOENT") return false;
    throw error;
  }
}
