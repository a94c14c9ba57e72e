/** What sandboxes of a build get, whatever limits the service had when the build was made. */

import type { ContainerLimits } from "../../engine/engine.ts";
import type { BuildRecord } from "../../store/store.ts";

/** The limits of the service, except those that the template sets. */
export function limitsOf(
  limits: ContainerLimits,
  { setup }: Pick<BuildRecord, "setup">,
): ContainerLimits {
  const { cpus = limits.cpus, memoryMb = limits.memoryMb } = setup ?? {};
  return { ...limits, cpus, memoryMb };
}
