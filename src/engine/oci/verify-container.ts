/**
 * What the kernel says of a container that was just started, against what was asked for: how strongly
 * its first process is separated, and what is mounted. It is read before the daemon gets its token: a
 * daemon's folder, a kernel file system or a volume that is not where it belongs ends the start.
 */

import {
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import { ID_RANGE } from "../../common/privilege.ts";
import { DAEMON_DIRECTORY } from "../daemon/daemon-command.ts";
import { type ContainerSpec, ISOLATION_LEVELS, type IsolationLevel } from "../engine.ts";
import { type MountEntry, parseMounts } from "../host/mount-table.ts";
import { hasUsr } from "../storage/rootfs.ts";

/** Each of them must be another one than that of this process. */
const NAMESPACES = ["pid", "mnt", "net", "ipc", "uts"] as const;
/** SECCOMP_MODE_FILTER. */
const FILTERED = /^Seccomp:\s+2$/m;

export interface Started {
  /** The first process, as the host counts. */
  readonly pid: number;
  readonly idBase: number;
}

/** What was proven of a container on this kernel, whatever was asked for. */
export function readLevel({ pid, idBase }: Started): IsolationLevel {
  try {
    const isSeparate = NAMESPACES.every((kind) => isOwn(pid, kind));
    if (!isSeparate || !FILTERED.test(readFileSync(`/proc/${pid}/status`, "utf8"))) return "none";
    return hasOwnIds(pid, idBase) ? "userns-container" : "container";
  } catch (error) {
    throw new SandboxError("unavailable", "container ended at once", { cause: error });
  }
}

/**
 * What was proven of a container with a kernel of its own: what runs on this one is the runtime's
 * program, under the ids of the container. For a runtime that shares the kernel it would prove
 * nothing: its own program runs until it becomes that of the container.
 */
export function readSentryLevel({ pid, idBase }: Started, runtime: string): IsolationLevel {
  try {
    return runsProgramOf(pid, runtime) && hasOwnIds(pid, idBase) ? "gvisor" : "none";
  } catch (error) {
    throw new SandboxError("unavailable", "container ended at once", { cause: error });
  }
}

/** Newer releases have programs of the runtime in a folder beside it. */
const SIDECARS = "gvisor-bin";

/** By the file, not by its name: what is mounted where differs between namespaces. */
export function runsProgramOf(pid: number, runtime: string): boolean {
  const { dev, ino } = statSync(`/proc/${pid}/exe`, { bigint: true });
  const program = realpathSync(runtime);
  const beside = join(dirname(program), SIDECARS);
  const sidecars = existsSync(beside) ? readdirSync(beside).map((name) => join(beside, name)) : [];
  return [program, ...sidecars].some((path) => {
    const entry = statSync(path, { bigint: true });
    return entry.dev === dev && entry.ino === ino;
  });
}

/** @throws SandboxError unavailable when less was proven than the machine is known for. */
export function requireLevel(proven: IsolationLevel, known: IsolationLevel): void {
  if (ISOLATION_LEVELS.indexOf(proven) >= ISOLATION_LEVELS.indexOf(known)) return;
  throw new SandboxError("unavailable", `isolation is ${proven}, not ${known}`);
}

function isOwn(pid: number, kind: string): boolean {
  return readlinkSync(`/proc/${pid}/ns/${kind}`) !== readlinkSync(`/proc/self/ns/${kind}`);
}

function hasOwnIds(pid: number, idBase: number): boolean {
  const wanted = `0 ${idBase} ${ID_RANGE}`;
  const isMapped = ["uid_map", "gid_map"].every((name) => {
    const text = readFileSync(`/proc/${pid}/${name}`, "utf8");
    return text.trim().replaceAll(/\s+/g, " ") === wanted;
  });
  return isMapped && isOwn(pid, "user");
}

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
