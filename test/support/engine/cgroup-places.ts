/** Where a process is in the cgroup trees of the machine. */

import { readFile } from "node:fs/promises";
import { readMounts } from "../../../src/engine/host/mount-table.ts";
import { locateCgroups } from "../../../src/engine/oci/cgroups.ts";

/** Other users of the machine may have mounted more trees, in namespaces of their own: those do not count. */
export async function cgroupPlaces(pid: number): Promise<ReadonlySet<string>> {
  const { legacy } = locateCgroups(await readMounts());
  const trees = new Set(["", ...legacy.flatMap(({ controllers }) => controllers)]);
  const lines = (await readFile(`/proc/${pid}/cgroup`, "utf8")).trim().split("\n");
  const places = lines.flatMap((line) => {
    const [, controllers = "", path = ""] = line.split(":");
    return trees.has(controllers.split(",")[0] ?? "") ? [path] : [];
  });
  return new Set(places);
}
