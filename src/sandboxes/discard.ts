/**
 * Takes away a sandbox by its identifier and its folder alone, in whatever state its container is:
 * the one way for a start that reconciles, for `gc`, and for an end that failed half way.
 */

import { join } from "node:path";
import { step } from "../common/steps.ts";
import type { Engine } from "../engine/engine.ts";
import type { SandboxRecord, Store } from "../store/store.ts";
import type { Domain } from "./domain.ts";
import { releaseForkBuild } from "./fork-builds.ts";

/** Where the containers' folders of an instance are, and what knows how to remove them. */
export interface Place {
  readonly engine: Engine;
  readonly store: Store;
  /** Folder of the containers' folders. */
  readonly directory: string;
}

/** First everything on the machine, then the row that names it. Idempotent. */
export async function removeTraces(place: Place, sandboxId: string): Promise<void> {
  const { engine, store, directory } = place;
  await engine.remove(sandboxId, join(directory, sandboxId));
  await step("discard.removed");
  store.sandboxes.remove(sandboxId);
}

/** Ends a sandbox that nobody can reach any more, with what only it stood on. */
export async function discard(domain: Domain, record: SandboxRecord, reason: string) {
  const { sandboxId } = record;
  await removeTraces(domain, sandboxId);
  await releaseForkBuild(domain, record.buildId);
  // Nobody was ever told of a pooled one: it has no log.
  if (record.state !== "pooled") {
    domain.logBook.note(record, "Sandbox stopped", { kill_reason: reason });
  }
  domain.log.info({ op: "sandbox.discard", sandboxId, reason, outcome: "ok" }, "discarded");
}
