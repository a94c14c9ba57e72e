/**
 * Takes away a sandbox by its identifier and its folder alone, in whatever state its container is:
 * the one way for a start that reconciles, for `gc`, and for an end that failed half way.
 */

import { join } from "node:path";
import { step } from "../../common/steps.ts";
import type { Engine } from "../../engine/engine.ts";
import type { SandboxRecord, Store } from "../../store/store.ts";
import { releaseForkBuild } from "../builds/builds.ts";
import type { Services, Folders, History, Registry } from "../context.ts";

/** Where the containers' folders of an instance are, and what knows how to remove them. */
export interface TraceLocation {
  readonly engine: Engine;
  readonly store: Store;
  /** Folder of the containers' folders. */
  readonly directory: string;
}

/**
 * First everything on the machine, then the row that names it. Idempotent. Whether there was a row: of
 * two removals at once one alone finds it.
 */
async function takeTraces(location: TraceLocation, sandboxId: string): Promise<boolean> {
  const { engine, store, directory } = location;
  await engine.remove(sandboxId, join(directory, sandboxId));
  await step("discard.removed");
  const hadRow = store.sandboxes.get(sandboxId) !== undefined;
  store.sandboxes.remove(sandboxId);
  return hadRow;
}

/** Takes away what there is of a sandbox. Idempotent. */
export async function removeTraces(location: TraceLocation, sandboxId: string): Promise<void> {
  await takeTraces(location, sandboxId);
}

/** Removes a sandbox that cannot be reached any more, and the fork build that only it used. */
export async function discard(
  context: Services & Folders & History & Registry,
  record: SandboxRecord,
  reason: string,
) {
  const { sandboxId } = record;
  const hadRow = await takeTraces(context, sandboxId);
  await releaseForkBuild(context, record.buildId);
  // No client ever knew a pooled one: it has no log.
  if (hadRow && record.state !== "pooled") {
    context.logBook.note(record, "Sandbox stopped", { kill_reason: reason });
  }
  context.log.info({ op: "sandbox.discard", sandboxId, reason, outcome: "ok" }, "discarded");
}
