/**
 * The OCI configuration of a container with a kernel of its own. What this kernel decides by itself
 * (its `/dev`, `/proc` and `/sys`, which calls it has) is not asked for; a filter of the host's calls
 * around it is the runtime's.
 */

import { ID_RANGE } from "../../common/privilege.ts";
import {
  DAEMON_DIRECTORY,
  listeningInitCommand,
  SECRET_VARIABLE,
} from "../daemon/daemon-command.ts";
import type { Bind } from "../engine.ts";
import {
  createProcess,
  createResources,
  fixedMount,
  MOUNTS,
  type BundleOptions,
} from "../oci/bundle.ts";
import { trialWords } from "./abilities.ts";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
/**
 * Of the first program inside alone. It is not in the bounding set: what that program becomes has it
 * no more, and the kernel inside, which on the machine has the rights of that set, never has it.
 */
const MOUNT_RIGHT = "CAP_SYS_ADMIN";

/**
 * The kernel inside keeps no file that nothing uses: it would hold the name and the data of one that
 * another sandbox renamed or removed. runsc has this option of a bind mount since May 2024.
 */
const UNCACHED = "dcache=0";

export interface SentryBundleOptions extends Omit<
  BundleOptions,
  "usersPath" | "filter" | "isCounted"
> {
  /** The file of its network namespace. */
  readonly networkPath: string;
  /** What connections to the daemon begin with. */
  readonly secret: string;
  /** Whether there is a folder `/tmp` below the root. */
  readonly hasTmp: boolean;
  /** A file that programs read as the boot id of the kernel; undefined shows the kernel's own. */
  readonly bootIdPath?: string | undefined;
  /** Folders that others write to as well; they are mounted below the root. */
  readonly binds: readonly Bind[];
  /** Whether its first program looks at what the kernel can do. */
  readonly isTrial?: boolean;
}

/** The whole `config.json` as a value. */
export function createSentryBundle(options: SentryBundleOptions) {
  const idMap = [{ containerID: 0, hostID: options.idBase, size: ID_RANGE }];
  const { cgroupPath, limits, host } = options;
  const process = createProcess(options);
  const { capabilities } = process;
  const first = [...capabilities.effective, MOUNT_RIGHT];
  return {
    ociVersion: "1.0.2",
    hostname: options.hostname,
    root: { path: options.rootPath, readonly: false },
    process: {
      ...process,
      capabilities: { ...capabilities, effective: first, permitted: first },
      args: listeningInitCommand(options.id, options.isTrial === true ? trialWords() : []),
      // For each user of the container, by its own kernel.
      rlimits: [{ type: "RLIMIT_NPROC", hard: limits.pids, soft: limits.pids }],
      env: [...process.env, `${SECRET_VARIABLE}=${options.secret}`],
    },
    mounts: createMounts(options),
    linux: {
      namespaces: [
        ...["pid", "mount", "ipc", "uts", "user"].map((type) => ({ type })),
        { type: "network", path: options.networkPath },
      ],
      uidMappings: idMap,
      gidMappings: idMap,
      ...(cgroupPath !== undefined && {
        cgroupsPath: cgroupPath,
        resources: createResources(limits, host),
      }),
    },
  };
}

function createMounts(options: SentryBundleOptions) {
  const { rootPath, daemonPath, binds, hasTmp, bootIdPath } = options;
  // With all that is mounted below, such as a volume in /tmp: Linux gives no part of a locked tree.
  const writable = ["rbind", "rw", "nosuid", "nodev"];
  const mountBelow = (path: string, mountOptions: readonly string[]) => ({
    destination: path,
    type: "bind",
    source: `${rootPath}${path}`,
    options: mountOptions,
  });
  return [
    MOUNTS.proc,
    MOUNTS.sys,
    MOUNTS.shm,
    MOUNTS.mqueue,
    MOUNTS.run,
    // An empty /tmp would get a file system in memory, which no snapshot has.
    ...(hasTmp ? [mountBelow("/tmp", writable)] : []),
    ...binds.map(({ path }) => mountBelow(path, [...writable, UNCACHED])),
    fixedMount(DAEMON_DIRECTORY, daemonPath),
    ...(bootIdPath === undefined ? [] : [fixedMount(BOOT_ID, bootIdPath)]),
  ];
}
