/** What this process or its machine has run out of, other than space on a disk, and a disk that fails. */

import { reasonsOf } from "./error-reasons.ts";

export interface Shortage {
  readonly message: string;
  /** What its operator can do about it. */
  readonly hint: string;
}

const SHORTAGES: Readonly<Record<string, Shortage>> = {
  EMFILE: {
    message: "the service has too many open files",
    hint: "close connections and streams, or start the service with a higher limit of open files: ulimit -n, LimitNOFILE of systemd",
  },
  ENFILE: {
    message: "the machine of the service has too many open files",
    hint: "end programs there, or raise fs.file-max",
  },
  EFBIG: {
    message: "a file is larger than the service may write",
    hint: "start the service without a limit of file sizes: ulimit -f unlimited, LimitFSIZE of systemd",
  },
  EDQUOT: {
    message: "the service has used up its quota of the disk",
    hint: "delete snapshots, volumes or sandboxes, or raise the quota of its user or directory",
  },
  EIO: {
    message: "the disk of the service cannot be read or written",
    hint: "check that the disk of the home works",
  },
  EROFS: {
    message: "the disk of the service is read-only",
    hint: "check the disk of the home, and make it writable",
  },
  ENOMEM: {
    message: "the machine of the service has no memory left for it",
    hint: "kill sandboxes, end programs there, or raise the memory limit of the service",
  },
};

/** fork(2); of a socket the same code means that its peer is slow. */
export const NO_PROCESS: Shortage = {
  message: "the service cannot start any more processes",
  hint: "kill sandboxes, or raise its limit of processes: ulimit -u, TasksMax of systemd",
};
const SPAWN = "spawn";

const MAX_REASONS = 16;

/** The shortage that an error or one of its causes reports; it passes when others use less. */
export function shortageOf(error: unknown): Shortage | undefined {
  for (const one of [error, ...reasonsOf(error, MAX_REASONS)]) {
    const found = one instanceof Error ? ofOne(one) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

function ofOne(error: Error): Shortage | undefined {
  if (!("code" in error) || typeof error.code !== "string") return undefined;
  const isSpawn = "syscall" in error && String(error.syscall).startsWith(SPAWN);
  if (error.code === "EAGAIN" && isSpawn) return NO_PROCESS;
  return SHORTAGES[error.code];
}
