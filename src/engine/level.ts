/** How strongly a container really is separated, as the kernel tells it of its first process. */

import { readFile, readlink, realpath } from "node:fs/promises";
import { SandboxError } from "../common/errors.ts";
import { ID_RANGE } from "../common/privilege.ts";
import { ISOLATION_LEVELS, type IsolationLevel } from "./engine.ts";

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
export async function readLevel({ pid, idBase, runtime }: Started): Promise<IsolationLevel> {
  try {
    // A kernel of its own: what runs on this one is the runtime's program, not the container's.
    if ((await readlink(`/proc/${pid}/exe`)) === (await realpath(runtime))) return "gvisor";
    const own = await Promise.all(NAMESPACES.map(async (kind) => isOwn(pid, kind)));
    if (own.includes(false) || !FILTERED.test(await readFile(`/proc/${pid}/status`, "utf8"))) {
      return "none";
    }
    return (await hasOwnIds(pid, idBase)) ? "userns-container" : "container";
  } catch (error) {
    throw new SandboxError("unavailable", "container ended at once", { cause: error });
  }
}

/** @throws SandboxError unavailable when less was proven than the machine is known for. */
export function requireLevel(proven: IsolationLevel, known: IsolationLevel): void {
  if (ISOLATION_LEVELS.indexOf(proven) >= ISOLATION_LEVELS.indexOf(known)) return;
  throw new SandboxError("unavailable", `isolation is ${proven}, not ${known}`);
}

async function isOwn(pid: number, kind: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([
    readlink(`/proc/${pid}/ns/${kind}`),
    readlink(`/proc/self/ns/${kind}`),
  ]);
  return theirs !== ours;
}

async function hasOwnIds(pid: number, idBase: number): Promise<boolean> {
  const maps = ["uid_map", "gid_map"].map(async (name) => readFile(`/proc/${pid}/${name}`, "utf8"));
  const wanted = `0 ${idBase} ${ID_RANGE}`;
  const found = (await Promise.all(maps)).map((text) => text.trim().replaceAll(/\s+/g, " "));
  return found.every((text) => text === wanted) && (await isOwn(pid, "user"));
}
