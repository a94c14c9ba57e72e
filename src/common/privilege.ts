/**
 * The privileges of this process: those of root over the machine, those of root over a user
 * namespace of its own, or none. In such a namespace containers work too, without limits and without
 * a network. The default home follows from them.
 */

import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import { isAbsolute, join } from "node:path";

export type Privilege = "machine" | "namespace" | "none";

/** How many ids a container has; files and users beyond it do not exist inside. */
export const ID_RANGE = 65_536;

/** The first id of the only range that a namespace of our own has to give; 0 in it is its owner. */
export const NAMESPACE_ID_BASE = 1;

/** What a namespace must map: its owner, and one container's range. */
const NAMESPACE_IDS: number = NAMESPACE_ID_BASE + ID_RANGE;

/** How many ids the machine's own namespace maps. */
const ALL_IDS = 4_294_967_295;

/** The id that a file of this container's id has on disk, where mounts show it unmoved. */
export function storedId(id: number): number {
  return isRootless() ? NAMESPACE_ID_BASE + id : id;
}

/** The variable in which the program is told why it has no namespace of its own. */
export const NAMESPACE_FAULT = "SANDBOX_MCP_NAMESPACE_FAULT";

/** The privileges of this process; they do not change while it runs. */
const OWN_PRIVILEGE: Privilege = process.getuid?.() === 0 ? privilegeOf(readMap()) : "none";

export function readPrivilege(): Privilege {
  return OWN_PRIVILEGE;
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
  // A namespace that root made for itself maps root to root too, and fewer ids.
  const [only = []] = rows;
  if (rows.length === 1 && [0, 0, ALL_IDS].every((part, at) => only[at] === part)) return "machine";
  const end = Math.max(...rows.map(([inside = 0, , count = 0]) => inside + count));
  return end >= NAMESPACE_IDS ? "namespace" : "none";
}

/** Without such a file there are no user namespaces, and root is root. */
function readMap(): string {
  try {
    return readFileSync("/proc/self/uid_map", "utf8");
  } catch {
    return `0 0 ${ALL_IDS}`;
  }
}

/** Set-id programs give nothing to such a process and to those that it starts, in sandboxes too. */
export function mayNotGain(status: string): boolean {
  return /^NoNewPrivs:\s*1$/m.test(status);
}

/** Whether a process has a right of root in effect, by the kernel's number; @see capabilities(7). */
export function hasRight(status: string, right: number): boolean {
  const rights = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
  return ((rights >> BigInt(right)) & 1n) === 1n;
}

/** One place for the machine's root; for every other user, root of a namespace too, their own data. */
export function defaultHome(environment: Readonly<Record<string, string | undefined>>): string {
  if (readPrivilege() === "machine") return "/var/lib/sandbox-mcp";
  // One that is relative is to be ignored: https://specifications.freedesktop.org/basedir-spec.
  const named = environment["XDG_DATA_HOME"] ?? "";
  const data = isAbsolute(named) ? named : join(ownFolder(environment["HOME"]), ".local/share");
  return join(data, "sandbox-mcp");
}

function ownFolder(named: string | undefined): string {
  if (named !== undefined && isAbsolute(named)) return named;
  try {
    return userInfo().homedir;
  } catch {
    // An id without an account, as of a container; their runtimes set the same.
    return "/";
  }
}
