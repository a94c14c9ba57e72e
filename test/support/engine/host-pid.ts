/** Processes of sandboxes as the host sees them. */

import { readFile } from "node:fs/promises";

/** The first process of a sandbox; with a kernel of its own, its file server. */
export async function hostPidOf(sandboxId: string): Promise<number> {
  const trees = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
  for (const tree of trees) {
    const path = `${tree}/sandbox-mcp/${sandboxId}/cgroup.procs`;
    const text = await readFile(path, "utf8").catch(() => "");
    const pids = text.split("\n").filter(Boolean).map(Number);
    if (pids.length > 0) return Math.min(...pids);
  }
  throw new Error("the sandbox has no process");
}
