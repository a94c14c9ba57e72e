/**
 * What the kernel says is mounted in a container that was just started, against what was asked for.
 * It is asked before the daemon gets its token: a daemon's folder, a kernel file system or a volume
 * that is not where it belongs ends the start.
 */

import { basename } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import { DAEMON_DIRECTORY } from "../daemon/daemon.ts";
import type { ContainerSpec } from "../engine.ts";
import { parseMounts, type MountEntry } from "../host/mount-table.ts";
import { hasUsr } from "../storage/rootfs.ts";

/** Each is mounted once, with a file system of this type. */
const FIXED: Readonly<Record<string, string>> = {
  "/": "overlay",
  "/proc": "proc",
  "/dev": "tmpfs",
  "/sys": "sysfs",
  "/run": "tmpfs",
  [DAEMON_DIRECTORY]: "overlay",
};

/** Below these a runtime covers files and makes devices, each kind in its own way. */
const KERNEL_FOLDERS = ["/proc/", "/dev/", "/sys/"];

/** @throws SandboxError unavailable when a mount is missing, doubled, elsewhere or another one. */
export function verifyMounts(pid: number, spec: Pick<ContainerSpec, "binds" | "layers">): void {
  const text = readKernelFile(`/proc/${pid}/mountinfo`);
  if (text === undefined) throw new SandboxError("unavailable", "container ended at once");
  const fault = findMountFault(parseMounts(text), spec);
  if (fault === undefined) return;
  throw new SandboxError(
    "unavailable",
    `mounts of the container are not those asked for: ${fault}`,
  );
}

/** What is wrong with the mounts of a container; undefined when nothing is. */
export function findMountFault(
  mounts: readonly MountEntry[],
  { binds = [], layers }: Pick<ContainerSpec, "binds" | "layers">,
): string | undefined {
  const fixed = new Map(Object.entries(hasUsr(layers) ? { ...FIXED, "/usr": "overlay" } : FIXED));
  const sources = new Map(binds.map(({ path, source }) => [path, basename(source)]));
  const shared = new Set(sources.values());
  const seen = new Set<string>();
  for (const { target, type, root } of mounts) {
    if (seen.has(target)) return `${target} is mounted twice`;
    seen.add(target);
    const source = sources.get(target);
    const isRight =
      source === undefined
        ? fixed.get(target) === type || (isCovered(target) && !shared.has(basename(root)))
        : basename(root) === source;
    if (!isRight) return `${target} is ${type} of ${root}`;
  }
  const missing = [...fixed.keys(), ...sources.keys()].find((target) => !seen.has(target));
  return missing === undefined ? undefined : `${missing} is missing`;
}

function isCovered(target: string): boolean {
  return KERNEL_FOLDERS.some((folder) => target.startsWith(folder));
}
