/** How strongly a container really is separated, as the kernel tells it of its first process. */

import { readFileSync, readlinkSync, realpathSync } from "node:fs";
import { SandboxError } from "../../common/errors.ts";
import { ID_RANGE } from "../../common/privilege.ts";
import { ISOLATION_LEVELS, type IsolationLevel } from "../engine.ts";

/** Each of them must be another one than that of this process. */
const NAMESPACES = ["pid", "mnt", "net", "ipc", "uts"] as const;
/** SECCOMP_MODE_FILTER. */
const FILTERED = /^Seccomp:\s+2$/m;

export interface Started {
  /** The first process, as the host counts. */
  readonly pid: number;
  readonly idBase: number;
  /** Path of the program that started it. */
  readonly runtime: string;
}

/** What was proven, whatever was asked for. */
export function readLevel({ pid, idBase, runtime }: Started): IsolationLevel {
  try {
    // A kernel of its own: what runs on this one is the runtime's program, not the container's.
    if (readlinkSync(`/proc/${pid}/exe`) === realpathSync(runtime)) return "gvisor";
    const isSeparate = NAMESPACES.every((kind) => isOwn(pid, kind));
    if (!isSeparate || !FILTERED.test(readFileSync(`/proc/${pid}/status`, "utf8"))) return "none";
    return hasOwnIds(pid, idBase) ? "userns-container" : "container";
  } catch (error) {
    throw new SandboxError("unavailable", "container ended at once", { cause: error });
  }
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
