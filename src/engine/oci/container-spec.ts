/** What a container may be asked for: its id, folder, host name and limits. */

import { isAbsolute, normalize } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import type { ContainerSpec } from "../engine.ts";

/** Below this no file system fits; above it an ext4 image does not either. */
const DISK_MB = { min: 16, max: 4 * 1024 * 1024 } as const;
const MEMORY_MB = { min: 16, max: 4 * 1024 * 1024 } as const;
const CPUS = { min: 0.01, max: 1024 } as const;
const PIDS = { min: 8, max: 1_000_000 } as const;

/** @throws SandboxError invalid_argument for an id, a name or a limit, internal for a folder. */
export function checkSpec({ id, directory, hostname, limits }: ContainerSpec): void {
  checkPlace(id, directory);
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(hostname)) {
    throw new SandboxError("invalid_argument", `not a host name: ${JSON.stringify(hostname)}`);
  }
  checkLimit("memoryMb", limits.memoryMb, MEMORY_MB);
  checkLimit("cpus", limits.cpus, CPUS);
  checkLimit("diskMb", limits.diskMb, DISK_MB);
  checkLimit("pids", limits.pids, PIDS);
}

/** Id and folder: the first could not be a cgroup's name, or the second is no plain path. */
export function checkPlace(id: string, directory: string): void {
  checkId(id);
  if (!isAbsolute(directory) || normalize(directory) !== directory) {
    throw new SandboxError("internal", `not a plain absolute path: ${directory}`);
  }
}

/** @throws SandboxError invalid_argument for an id that could not be a cgroup's name. */
export function checkId(id: string): void {
  if (!/^[a-z0-9]{1,64}$/.test(id)) {
    throw new SandboxError("invalid_argument", `not a container id: ${JSON.stringify(id)}`);
  }
}

function checkLimit(name: string, value: number, bounds: { min: number; max: number }): void {
  const isWhole = name === "cpus" || Number.isInteger(value);
  if (isWhole && value >= bounds.min && value <= bounds.max) return;
  throw new SandboxError(
    "invalid_argument",
    `${name} is ${value}, must be ${bounds.min} to ${bounds.max}`,
  );
}
