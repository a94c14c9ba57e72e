/**
 * The OCI configuration of one container: a pure function of what the container is and what the
 * host can do. Nothing of an image or a runtime's own template gets into it.
 */

import { ID_RANGE } from "../../common/privilege.ts";
import { DAEMON_DIRECTORY, initCommand } from "../daemon/daemon-command.ts";
import type { ContainerLimits } from "../engine.ts";
import { OPTION_MEMORY } from "./option-memory.ts";
import { createSeccompProfile, FILTER_ANNOTATION } from "./seccomp.ts";

/** What the bundle must know of the machine. */
export interface BundleHost {
  readonly architecture: string;
  /** Whether the kernel counts swap; where it does not, asking for it fails. */
  readonly hasSwapLimit: boolean;
  /** Whether what a socket holds for its options has a limit for each container. */
  readonly hasOptionLimit?: boolean;
}

export interface BundleOptions {
  readonly id: string;
  readonly hostname: string;
  readonly limits: ContainerLimits;
  /** The first host id of the container's range. */
  readonly idBase: number;
  /** Where root file system and daemon are mounted when the runtime starts. */
  readonly rootPath: string;
  readonly daemonPath: string;
  /** The file of its user namespace, where one was made before. */
  readonly usersPath: string | undefined;
  /** Undefined where there are no cgroups: the limits of single processes are all there is then. */
  readonly cgroupPath: string | undefined;
  /** Whether a cgroup that the runtime does not know counts its processes. */
  readonly isCounted?: boolean;
  /** Who has no right to raise a limit cannot give more processes than that; undefined for no such limit. */
  readonly maxProcesses?: number | undefined;
  /** The compiled system call filter in base64, for a runtime that takes it so. */
  readonly filter?: string | undefined;
  readonly host: BundleHost;
}

/** What root inside may do, all of it bounded by the user namespace. */
const CAPABILITIES = [
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_NET_BIND_SERVICE",
  "CAP_SETFCAP",
  "CAP_SETGID",
  "CAP_SETPCAP",
  "CAP_SETUID",
  "CAP_SYS_CHROOT",
] as const;

/** Block devices tell the paths of their files, which have the ids of all sandboxes. */
const BLOCK_DEVICES = [
  "/sys/block",
  "/sys/class/block",
  "/sys/dev/block",
  "/sys/devices/virtual/block",
] as const;

const MASKED_PATHS = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/config.gz",
  "/proc/interrupts",
  "/proc/kallsyms",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/timer_list",
  "/proc/timer_stats",
  ...BLOCK_DEVICES,
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
] as const;

const READ_ONLY_PATHS = [
  "/proc/bus",
  "/proc/fs",
  "/proc/irq",
  "/proc/sys",
  "/proc/sysrq-trigger",
] as const;

const SYSCTLS = {
  // Servers of the default user may take ports below 1024, and ping works for everyone.
  "net.ipv4.ip_unprivileged_port_start": "0",
  "net.ipv4.ping_group_range": `0 ${ID_RANGE - 1}`,
} as const;

const CPU_PERIOD_US = 100_000;
/** One sandbox alone must not use up the terminals of the machine. */
const MAX_TERMINALS = 256;
/** The kernel ends a sandbox before the service. */
const OOM_SCORE = 100;
const BYTES_PER_MB = 1024 * 1024;

/** The whole `config.json` as a value. */
export function createBundle(options: BundleOptions): object {
  const idMap = [{ containerID: 0, hostID: options.idBase, size: ID_RANGE }];
  return {
    ociVersion: "1.0.2",
    hostname: options.hostname,
    root: { path: options.rootPath, readonly: false },
    process: createProcess(options),
    mounts: createMounts(options.daemonPath),
    ...(options.filter !== undefined && { annotations: { [FILTER_ANNOTATION]: options.filter } }),
    linux: {
      namespaces: [
        ...["pid", "mount", "ipc", "uts", "network", "cgroup"].map((type) => ({ type })),
        { type: "user", ...(options.usersPath !== undefined && { path: options.usersPath }) },
      ],
      uidMappings: idMap,
      gidMappings: idMap,
      ...(options.cgroupPath !== undefined && {
        cgroupsPath: options.cgroupPath,
        resources: createResources(options.limits, options.host),
      }),
      ...(options.filter === undefined && {
        seccomp: createSeccompProfile(options.host.architecture),
      }),
      sysctl: {
        ...SYSCTLS,
        ...(options.host.hasOptionLimit === true && {
          [OPTION_MEMORY.name]: String(OPTION_MEMORY.bytes),
        }),
      },
      maskedPaths: MASKED_PATHS,
      readonlyPaths: READ_ONLY_PATHS,
    },
  };
}

/** The first process. */
export function createProcess({
  id,
  limits,
  cgroupPath,
  isCounted,
  maxProcesses,
}: Pick<BundleOptions, "id" | "limits" | "cgroupPath" | "isCounted" | "maxProcesses">) {
  return {
    terminal: false,
    user: { uid: 0, gid: 0 },
    args: initCommand(id),
    env: [
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "LANG=C.UTF-8",
      // Fewer threads and memory pools in the daemon, at no cost that was measurable.
      "UV_THREADPOOL_SIZE=2",
      "MALLOC_ARENA_MAX=1",
    ],
    cwd: "/",
    // sudo and su must be able to raise ids; the user namespace bounds what they can raise to.
    noNewPrivileges: false,
    oomScoreAdj: OOM_SCORE,
    capabilities: {
      bounding: CAPABILITIES,
      effective: CAPABILITIES,
      permitted: CAPABILITIES,
      inheritable: [],
      ambient: [],
    },
    ...(cgroupPath === undefined && { rlimits: standInLimits(limits, isCounted, maxProcesses) }),
  };
}

/** For each user of the container and for each file, where nothing counts the container as a whole. */
function standInLimits(
  { pids, diskMb }: ContainerLimits,
  isCounted = false,
  maxProcesses = pids,
): object[] {
  const bytes = diskMb * BYTES_PER_MB;
  const size = { type: "RLIMIT_FSIZE", hard: bytes, soft: bytes };
  const count = Math.min(pids, maxProcesses);
  return isCounted ? [size] : [{ type: "RLIMIT_NPROC", hard: count, soft: count }, size];
}

const LOCKED = ["nosuid", "noexec", "nodev"] as const;

/** What a container has under every kernel. */
export const MOUNTS = {
  proc: { destination: "/proc", type: "proc", source: "proc", options: LOCKED },
  shm: {
    destination: "/dev/shm",
    type: "tmpfs",
    source: "shm",
    options: [...LOCKED, "mode=1777", "size=64m"],
  },
  mqueue: { destination: "/dev/mqueue", type: "mqueue", source: "mqueue", options: LOCKED },
  sys: { destination: "/sys", type: "sysfs", source: "sysfs", options: [...LOCKED, "ro"] },
  run: {
    destination: "/run",
    type: "tmpfs",
    source: "tmpfs",
    options: ["nosuid", "nodev", "mode=755", "size=64m"],
  },
} as const;

/** A file or folder of the host that nothing inside changes. */
export function fixedMount(destination: string, source: string) {
  return { destination, type: "bind", source, options: ["bind", "ro", "nosuid", "nodev"] };
}

function createMounts(daemonPath: string): object[] {
  return [
    MOUNTS.proc,
    {
      destination: "/dev",
      type: "tmpfs",
      source: "tmpfs",
      options: ["nosuid", "noexec", "strictatime", "mode=755", "size=64k"],
    },
    {
      destination: "/dev/pts",
      type: "devpts",
      source: "devpts",
      options: ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"].concat(
        `max=${MAX_TERMINALS}`,
      ),
    },
    MOUNTS.shm,
    MOUNTS.mqueue,
    MOUNTS.sys,
    MOUNTS.run,
    fixedMount(DAEMON_DIRECTORY, daemonPath),
  ];
}

/** The limits of all processes together. */
export function createResources(limits: ContainerLimits, host: BundleHost): object {
  const memory = limits.memoryMb * BYTES_PER_MB;
  return {
    devices: [{ allow: false, access: "rwm" }],
    // No swap: what is counted as memory and swap together is no more than the memory.
    memory: { limit: memory, ...(host.hasSwapLimit ? { swap: memory } : {}) },
    cpu: { quota: Math.round(limits.cpus * CPU_PERIOD_US), period: CPU_PERIOD_US },
    pids: { limit: limits.pids },
  };
}
