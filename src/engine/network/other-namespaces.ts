/**
 * Network namespaces whose file is mounted in other mount namespaces alone. A service may start in another
 * one than the service before it, as under systemd with a private /tmp; programs that this one left keep
 * its mounts.
 */

import { readdir, readlink } from "node:fs/promises";
import { readIfThere } from "../../common/files.ts";
import { parseMounts } from "../host/mount-table.ts";
import { runProgram } from "../host/run-program.ts";

/** Mounts the namespace here too, where a process of this user has it. Whether one had it. */
export async function mountFromElsewhere(path: string): Promise<boolean> {
  for (const pid of await onePerMountNamespace()) {
    if (!(await hasNamespaceAt(pid, path))) continue;
    try {
      // With the link to the root of that process resolved, the path would be the one here.
      const file = `/proc/${pid}/root${path}`;
      await runProgram(["mount", "--no-canonicalize", "--bind", file, path]);
      return true;
    } catch {
      // It may have ended meanwhile.
    }
  }
  return false;
}

/** Of processes with the rights of this one: what others mount there they may have made up. */
async function onePerMountNamespace(): Promise<string[]> {
  const own = await namespaceOf("self", "user");
  const found = new Map<string | undefined, string>();
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    if ((await namespaceOf(pid, "user")) === own) found.set(await namespaceOf(pid, "mnt"), pid);
  }
  found.delete(await namespaceOf("self", "mnt"));
  return [...found.values()];
}

/** Undefined for one that has ended. */
async function namespaceOf(pid: string, kind: "mnt" | "user"): Promise<string | undefined> {
  return readlink(`/proc/${pid}/ns/${kind}`).catch(() => undefined);
}

async function hasNamespaceAt(pid: string, path: string): Promise<boolean> {
  const text = (await readIfThere(`/proc/${pid}/mountinfo`).catch(() => undefined)) ?? "";
  return parseMounts(text).some(({ target, root }) => target === path && root.startsWith("net:["));
}
