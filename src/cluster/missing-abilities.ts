/** What sandboxes that are Pods cannot do. Each is refused by its name, never left out in silence. */

import { SandboxError } from "../common/errors.ts";
import type { CreateOptions } from "../sandboxes/sandbox.ts";

/** By the word with which a client asks for it. */
const MISSING = {
  pause: "pause and resume sandboxes without --snapshot-registry",
  autoPause: "pause sandboxes at their timeout without --snapshot-registry",
  snapshot: "take snapshots without --snapshot-registry",
  fork: "fork sandboxes without --snapshot-registry",
  volumes: "offer volumes without --volume-class",
  volumeContent: "reach the content of a volume from outside of a sandbox",
  snapshotVolumes: "mount volumes in a sandbox of a snapshot",
  builds: "build templates: a template is an image in a registry, named by --pod-images",
  templates: "change templates: they are images in a registry, named by --pod-images",
  network:
    "apply rules of egress without --egress-denied: one NetworkPolicy holds for all sandboxes",
  names: "apply rules of egress by host name: a NetworkPolicy knows addresses alone",
  networkUpdate: "change rules of egress: those of the create hold until the end",
} as const;

/** As a description of a sandbox tells them. */
export function missingAbilities(offered: {
  readonly egress: boolean;
  readonly snapshots: boolean;
  readonly volumes: boolean;
}): readonly string[] {
  const rules = offered.egress
    ? ["network rules by host name", "changes of network rules"]
    : ["network rules"];
  const images = offered.snapshots
    ? ["memory in pauses", "memory in snapshots"]
    : ["pause", "snapshot", "fork"];
  const volumes = offered.volumes ? "content of volumes outside of sandboxes" : "volumes";
  return [...images, volumes, ...rules];
}

type Missing = keyof typeof MISSING;

/** The refusal; on the wire it is 501. */
export function missingAbility(ability: Missing): SandboxError {
  return new SandboxError("unimplemented", `the kubernetes engine cannot ${MISSING[ability]}`, {
    hint: "docs/kubernetes.md lists what differs",
  });
}

/** @throws SandboxError unimplemented when a create asks for what Pods lack. */
export function requireAbilities(
  options: CreateOptions,
  { snapshots, volumes }: { readonly snapshots: unknown; readonly volumes: unknown },
): void {
  const { volumeMounts, pausesAtTimeout, resumesOnTraffic } = options;
  if (snapshots === undefined && (pausesAtTimeout || resumesOnTraffic))
    throw missingAbility("autoPause");
  if (volumeMounts.length > 0 && volumes === undefined) throw missingAbility("volumes");
}
