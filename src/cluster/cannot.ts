/** What sandboxes that are Pods cannot do. Each is refused by its name, never left out in silence. */

import { SandboxError } from "../common/errors.ts";
import type { CreateOptions } from "../sandboxes/sandbox.ts";

/** By the word with which a client asks for it. */
const MISSING = {
  pause: "pause and resume sandboxes: a Pod has no freeze, and its files end with it",
  autoPause: "pause sandboxes at their timeout: a Pod has no freeze, and its files end with it",
  snapshot: "take snapshots",
  fork: "fork sandboxes",
  volumes: "offer volumes",
  builds: "build templates: a template is an image in a registry, named by --pod-images",
  templates: "change templates: they are images in a registry, named by --pod-images",
  network: "apply rules of egress; the NetworkPolicy of the namespace holds for every sandbox",
} as const;

/** As a description of a sandbox tells them. */
export const MISSING_ABILITIES = ["pause", "snapshot", "fork", "volumes", "network rules"] as const;

type Missing = keyof typeof MISSING;

/** The refusal; on the wire it is 501. */
export function cannot(ability: Missing): SandboxError {
  return new SandboxError("unimplemented", `the kubernetes engine cannot ${MISSING[ability]}`, {
    hint: "docs/kubernetes.md lists what differs",
  });
}

/** @throws SandboxError unimplemented when a create asks for what Pods lack. */
export function requireAbilities(options: CreateOptions): void {
  const { network, allowsInternet, volumeMounts, pausesAtTimeout, resumesOnTraffic } = options;
  if (pausesAtTimeout || resumesOnTraffic) throw cannot("autoPause");
  if (volumeMounts.length > 0) throw cannot("volumes");
  const rules = [...(network?.allowOut ?? []), ...(network?.denyOut ?? [])];
  if (allowsInternet === false || rules.length > 0) throw cannot("network");
}
