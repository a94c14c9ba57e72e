/**
 * What rights this process has: those of root over the machine, those of root over a user namespace
 * of its own, or none. In such a namespace containers work too, without limits and without a network.
 */

import { readFileSync } from "node:fs";

export type Privilege = "machine" | "namespace" | "none";

/** How many ids a container has; files and users beyond it do not exist inside. */
export const ID_RANGE = 65_536;

/** The first id of the only range that a namespace of our own has to give; 0 in it is its owner. */
export const NAMESPACE_ID_BASE = 1;

/** What a namespace must map: its owner, and one container's range. */
const NAMESPACE_IDS: number = NAMESPACE_ID_BASE + ID_RANGE;

/** The id that a file of this container's id has on disk, where mounts show it unmoved. */
export function storedId(id: number): number {
  return isRootless() ? NAMESPACE_ID_BASE + id : id;
}

/** The variable in which the program is told why it has no namespace of its own. */
export const NAMESPACE_FAULT = "SANDBOX_MCP_NAMESPACE_FAULT";

let known: Privilege | undefined;

/** The rights of this process; they do not change while it runs. */
export function readPrivilege(): Privilege {
  return (known ??= process.getuid?.() === 0 ? privilegeOf(readMap()) : "none");
}

/** Whether what this process starts has no rights over the machine. */
export function isRootless(): boolean {
  return readPrivilege() !== "machine";
}

/** The rights of root in a namespace with this map; @see user_namespaces(7). */
export function privilegeOf(map: string): Privilege {
  const rows = map
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number));
  const isWhole =
    rows.some(([inside, outside]) => inside === 0 && outside === 0) && rows.length === 1;
  if (isWhole) return "machine";
  const end = Math.max(...rows.map(([inside = 0, , count = 0]) => inside + count));
  return end >= NAMESPACE_IDS ? "namespace" : "none";
}

/** Without such a file there are no user namespaces, and root is root. */
function readMap(): string {
  try {
    return readFileSync("/proc/self/uid_map", "utf8");
  } catch {
    return "0 0 4294967295";
  }
}
