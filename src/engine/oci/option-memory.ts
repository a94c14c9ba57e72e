/**
 * What one socket of a container may hold for its options: groups of multicast with their sources,
 * and keys of TCP. The kernel counts it for no cgroup, and allows 128 KiB since Linux 6.8, 20 KiB before.
 */

import { release } from "node:os";

/** Control data of one message has to fit too, of which 253 descriptors take 1,032 bytes. */
export const OPTION_MEMORY = { name: "net.core.optmem_max", bytes: 4096 } as const;
/** Older kernels have one limit for all network namespaces. */
const FIRST_KERNEL = [6, 8] as const;

/** Whether a network namespace has a limit of its own. */
export function hasOptionLimit(kernel = release()): boolean {
  const [major = 0, minor = 0] = kernel.split(".").map(Number);
  return major > FIRST_KERNEL[0] || (major === FIRST_KERNEL[0] && minor >= FIRST_KERNEL[1]);
}
