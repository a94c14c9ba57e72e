/**
 * The file server of a kernel of its own (runsc's gofer). It ends with the first program of the
 * container; the kernel itself stays for another 12 s, and answers nothing.
 */

import { join } from "node:path";
import { readKernelFile } from "../../common/files.ts";
import { readStartTicks } from "../host/process-stat.ts";
import type { ContainerRecord } from "../oci/container-record.ts";
import type { Cgroup } from "../oci/process-group.ts";

/** As runsc names it to the host. */
const NAME = "runsc-gofer";

/** Undefined where the host does not list the processes of the container in one place. */
export function findGofer({
  unified,
}: Pick<Cgroup, "unified">): Pick<ContainerRecord, "pid" | "startTicks"> | undefined {
  if (unified === undefined) return undefined;
  const pids = (readKernelFile(join(unified, "cgroup.procs")) ?? "").split("\n").map(Number);
  const pid = pids.find((one) => readKernelFile(`/proc/${one}/cmdline`)?.split("\0")[0] === NAME);
  const startTicks = pid === undefined ? undefined : readStartTicks(pid);
  return pid === undefined || startTicks === undefined ? undefined : { pid, startTicks };
}
