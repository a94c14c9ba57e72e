/**
 * Named moments inside every change of state, published on a diagnostics channel. Nothing in the
 * program listens; a preloaded listener can watch, hold, fail or end the program right there.
 */

import { channel } from "node:diagnostics_channel";

/** Each is published right after what its second word names; the next one may be in another module. */
export const STEPS = [
  "create.intent",
  "create.started",
  "create.told",
  "create.healthy",
  "create.committed",
  "container.folder",
  "container.ids",
  "disk.formatted",
  "disk.restored",
  "launch.prepared",
  "launch.running",
  "launch.recorded",
  "launch.connected",
  "claim.taken",
  "claim.thawed",
  "claim.healthy",
  "pool.frozen",
  "pause.cut",
  "pause.frozen",
  "pause.halted",
  "pause.committed",
  "halt.recorded",
  "halt.killed",
  "halt.unmounted",
  "halt.synced",
  "halt.cleared",
  "move.saved",
  "move.committed",
  "resume.thawed",
  "resume.committed",
  "restore.begun",
  "restore.started",
  "boot.mounted",
  "boot.started",
  "boot.told",
  "boot.healthy",
  "snapshot.intent",
  "daemon.begun",
  "daemon.copied",
  "daemon.compiled",
  "daemon.renamed",
  "layer.begun",
  "store.formatted",
  "store.made",
  "store.mounted",
  "checkpoint.saved",
  "image.wiped",
  "clone.ahead",
  "clone.frozen",
  "clone.cloned",
  "clone.thawed",
  "copy.ahead",
  "copy.frozen",
  "copy.copied",
  "copy.thawed",
  "layer.synced",
  "layer.renamed",
  "layer.durable",
  "squash.begun",
  "squash.listed",
  "squash.cleared",
  "squash.copied",
  "squash.done",
  "snapshot.committed",
  "fork.copied",
  "fork.started",
  "fork.released",
  "kill.cut",
  "kill.intent",
  "removal.killed",
  "removal.disconnected",
  "removal.unmounted",
  "removal.ungrouped",
  "removal.emptied",
  "removal.released",
  "kill.removed",
  "kill.erased",
  "start.ready",
  "upload.written",
  "upload.kept",
  "build.begun",
  "build.based",
  "build.started",
  "build.stepped",
  "build.cached",
  "build.squashed",
  "build.proven",
  "build.committed",
  "template.erased",
  "template.removed",
  "volume.recorded",
  "volume.formatted",
  "volume.made",
  "volume.mounted",
  "volume.erased",
  "volume.detached",
  "adopt.found",
  "discard.removed",
  "pod.recorded",
  "pod.restricted",
  "pod.made",
  "pod.running",
  "pod.told",
  "pod.committed",
  "pod.claimed",
  "pod.ending",
  "pod.removed",
  "pod.erased",
  "creation.opened",
  "creation.bound",
  "creation.kept",
] as const;

export type StepName = (typeof STEPS)[number];

/** What a listener gets. It may set `hold`: the change waits for it, and fails if it rejects. */
export interface StepMessage {
  readonly name: StepName;
  hold: Promise<void> | undefined;
}

const steps = channel("sandbox-mcp:step");

/** Says that a step of a change is done. */
export async function step(name: StepName): Promise<void> {
  if (!steps.hasSubscribers) return;
  const message: StepMessage = { name, hold: undefined };
  steps.publish(message);
  await message.hold;
}
