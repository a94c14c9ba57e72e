/** The rows of an instance, and what becomes of them when it is no more. */

import type { Store } from "../../store/store.ts";
import { forgetOwnForkBuilds } from "../builds/builds.ts";
import { failUnfinished } from "../template-builds/end-build.ts";

/** The instances that rows name: those of sandboxes, and those of builds under way. */
export function ownersOf(store: Store): ReadonlySet<string> {
  const requested = store.templateBuilds.open().filter(({ status }) => status === "building");
  return new Set([
    ...store.sandboxes.owners(),
    ...store.builds.unfinished().map(({ owner }) => owner),
    ...requested.map(({ owner }) => owner),
  ]);
}

/** Forgets the sandboxes of an instance, and what it had begun. */
export function forgetInstance(store: Store, instance: string): void {
  for (const { sandboxId } of store.sandboxes.ofOwner(instance)) store.sandboxes.remove(sandboxId);
  forgetUnfinished(store, instance);
}

/**
 * Forgets the snapshots that an instance never finished, and those that only its forks needed;
 * their layers are orphans then.
 */
export function forgetUnfinished(store: Store, instance: string): void {
  for (const { buildId, owner } of store.builds.unfinished()) {
    if (owner === instance) store.builds.remove(buildId);
  }
  failUnfinished(store, instance, Date.now());
  forgetOwnForkBuilds(store, instance);
}
