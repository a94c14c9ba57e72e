/**
 * The system call filter as the kernel takes it. Compiling it is a third of a runtime's start; crun
 * keeps what it compiled beside its state and takes it back by an annotation. What the first start
 * of this process left is used by the later ones, and each of them is looked at: a container without
 * exactly the filters of the first is ended, and nothing is reused any more.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { causeCode, SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";

/** Of crun; a runtime that does not know it gets no filter, which is seen afterwards. */
export const FILTER_ANNOTATION = "run.oci.seccomp_bpf_data";
const COMPILED = "seccomp.bpf";
/** Ours has some nine kilobytes. */
const MAX_FILTER_BYTES = 65_536;

export interface SeccompCache {
  /** The compiled filter of this runtime, in base64; undefined while none is known. */
  get(runtime: string): string | undefined;
  /** Learns from the first start of a runtime: its state's folder and the container's first process. */
  learn(runtime: string, state: string, pid: number): Promise<void>;
  /** @throws SandboxError unavailable when the process is filtered in any other way. */
  verify(runtime: string, pid: number): void;
}

interface Known {
  readonly filter: string;
  /** What the kernel says of a process that is filtered so. */
  readonly status: string;
}

/** A cache for the life of an engine. */
export function createSeccompCache(): SeccompCache {
  const known = new Map<string, Known | "unusable">();
  const knownOf = (runtime: string): Known | undefined => {
    const entry = known.get(runtime);
    return entry === "unusable" ? undefined : entry;
  };
  return {
    get: (runtime) => knownOf(runtime)?.filter,
    async learn(runtime, state, pid) {
      if (known.has(runtime)) return;
      const compiled = await readCompiled(join(state, COMPILED));
      const status = filterStatus(pid);
      const isUsable = compiled !== undefined && status.startsWith("2 ");
      known.set(runtime, isUsable ? { filter: compiled.toString("base64"), status } : "unusable");
    },
    verify(runtime, pid) {
      const expected = knownOf(runtime)?.status;
      if (expected !== undefined && filterStatus(pid) === expected) return;
      known.set(runtime, "unusable");
      throw new SandboxError("unavailable", "container runs without its system call filter");
    },
  };
}

async function readCompiled(path: string): Promise<Buffer | undefined> {
  try {
    const bytes = await readFile(path);
    return bytes.length > 0 && bytes.length <= MAX_FILTER_BYTES ? bytes : undefined;
  } catch (error) {
    if (causeCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Mode and number of filters: `2 1`. */
function filterStatus(pid: number): string {
  const text = readKernelFile(`/proc/${pid}/status`) ?? "";
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\d+)$`, "m").exec(text)?.[1] ?? "";
  return `${field("Seccomp")} ${field("Seccomp_filters")}`;
}
