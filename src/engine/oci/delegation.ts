/**
 * The part of the version 2 tree that the system manager gave to an ordinary user. Permissions and
 * lists of controllers prove nothing: a cgroup is made, limited and removed.
 */

import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { causeCode, isCode } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import { parseMounts } from "../host/mount-table.ts";

/** Those of the version 2 tree that limit a sandbox. */
export const CONTROLLERS = ["memory", "pids", "cpu"] as const;
type Controller = (typeof CONTROLLERS)[number];
/** Without these nothing is gained. */
const NEEDED: readonly Controller[] = ["memory", "pids"];

/** The folder in every hierarchy, and in a delegated part, in which all our containers lie. */
export const PARENT = "sandbox-mcp";
/** Where the processes of a delegated cgroup go: one with processes cannot limit others below it. */
const LEAF = "sandbox-mcp-server";
/** A process that forks meanwhile leaves another one behind. */
const MAX_MOVES = 10;
/** Of a trial: what is read back must be what was written. */
const TRIAL: Readonly<Record<Controller, readonly [name: string, value: string]>> = {
  memory: ["memory.max", "67108864"],
  pids: ["pids.max", "32"],
  cpu: ["cpu.max", "50000 100000"],
};
/** By which containers are frozen and ended; a kernel before 5.14 lacks one. */
const STATE_FILES = ["cgroup.freeze", "cgroup.kill", "cgroup.events"];

export interface Delegation {
  /** The folder in which the cgroups of containers are made. */
  readonly folder: string;
  /** What holds there: always memory and processes, and processors where they are delegated too. */
  readonly controllers: readonly Controller[];
}

let found: { readonly delegation: Delegation | undefined } | undefined;

/** What is delegated to this process; it does not change while it runs. */
export function findDelegation(): Delegation | undefined {
  if (!isRootless()) return undefined;
  found ??= { delegation: tryDelegation(ownFolders(readOwn("mountinfo"), readOwn("cgroup"))) };
  return found.delegation;
}

/**
 * The folder of a process's cgroup in the version 2 tree, then its parents up to the mount, by its
 * mount table and its cgroups as the kernel tells them.
 */
export function ownFolders(mountTable: string, cgroups: string): string[] {
  const mounts = parseMounts(mountTable);
  const own = /^0::(\/.*)$/m.exec(cgroups)?.[1];
  const mount = mounts.find(({ type }) => type === "cgroup2");
  // Beside version 1 trees the controllers are theirs.
  if (mount === undefined || own === undefined || mounts.some(({ type }) => type === "cgroup")) {
    return [];
  }
  // Outside of what is mounted, or of this process's cgroup namespace.
  const path = relative(mount.root, own);
  if (path.startsWith("..") || own.startsWith("/..")) return [];
  const names = path.split("/").filter((name) => name !== "");
  return [...names.keys(), names.length]
    .map((length) => join(mount.target, ...names.slice(0, length)))
    .toReversed();
}

/** Prepares for containers the topmost folder that is ours; undefined where limits do not hold. */
export function tryDelegation(folders: readonly string[]): Delegation | undefined {
  const base = pickBase(folders);
  if (base === undefined) return undefined;
  const folder = join(base, PARENT);
  try {
    const available = readWords(base, "cgroup.controllers");
    if (!NEEDED.every((name) => available.includes(name))) return undefined;
    if (listProcesses(base).length > 0) moveProcesses(base, join(base, LEAF));
    const controllers = tryLimits(folder);
    removeIfEmpty(folder);
    return NEEDED.every((name) => controllers.includes(name)) ? { folder, controllers } : undefined;
  } catch (error) {
    // Whatever the kernel refuses is not delegated.
    if (causeCode(error) === undefined) throw error;
    return undefined;
  }
}

/** Makes the folder of our containers, with every controller that the kernel gives it. */
export function makeParent(folder: string): void {
  enableControllers(dirname(folder));
  makeUnlessThere(folder);
  enableControllers(folder);
}

/** Writes a file of the kernel's that is there. */
export function writeControl(path: string, value: string): void {
  writeFileSync(path, value, { flag: "r+" });
}

/**
 * The topmost folder without processes of its own, which limits what lies below it and nothing
 * else; the own one where it has processes, as a unit of the system manager.
 */
function pickBase(folders: readonly string[]): string | undefined {
  const first = folders.findIndex((folder) => !isOurs(folder));
  const ours = first === -1 ? folders : folders.slice(0, first);
  return ours.findLast((folder) => listProcesses(folder).length === 0) ?? ours[0];
}

function isOurs(folder: string): boolean {
  const paths = ["", "cgroup.procs", "cgroup.subtree_control"].map((name) => join(folder, name));
  try {
    for (const path of paths) accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function listProcesses(folder: string): string[] {
  const text = readFileSync(join(folder, "cgroup.procs"), "utf8");
  return text.split("\n").filter((line) => line !== "");
}

/** Processes of a delegated cgroup are in it together: they stay so, a level below. */
function moveProcesses(source: string, target: string): void {
  makeUnlessThere(target);
  for (let round = 0; round < MAX_MOVES; round += 1) {
    const pids = listProcesses(source);
    if (pids.length === 0) return;
    for (const pid of pids) moveProcess(pid, target);
  }
}

function moveProcess(pid: string, target: string): void {
  try {
    writeControl(join(target, "cgroup.procs"), pid);
  } catch (error) {
    // It ended meanwhile.
    if (!isCode(error, "ESRCH")) throw error;
  }
}

function readOwn(name: string): string {
  return readKernelFile(`/proc/self/${name}`) ?? "";
}

/** Gives the children of a cgroup what it has itself, one by one: some may be refused. */
function enableControllers(folder: string): void {
  const enabled = readWords(folder, "cgroup.subtree_control");
  const available = readWords(folder, "cgroup.controllers");
  const wanted = CONTROLLERS.filter((name) => available.includes(name) && !enabled.includes(name));
  for (const name of wanted) {
    try {
      writeControl(join(folder, "cgroup.subtree_control"), `+${name}`);
    } catch (error) {
      // What is missing then is told by the trial.
      if (causeCode(error) === undefined) throw error;
    }
  }
}

function readWords(folder: string, name: string): string[] {
  return (readKernelFile(join(folder, name)) ?? "").trim().split(/\s+/);
}

function tryLimits(folder: string): Controller[] {
  const trial = join(folder, `trial${process.pid}`);
  makeParent(folder);
  makeUnlessThere(trial);
  try {
    const hasStates = STATE_FILES.every((name) => existsSync(join(trial, name)));
    return hasStates ? CONTROLLERS.filter((name) => holds(trial, TRIAL[name])) : [];
  } finally {
    removeIfEmpty(trial);
  }
}

function holds(folder: string, [name, value]: readonly [string, string]): boolean {
  const path = join(folder, name);
  try {
    writeControl(path, value);
  } catch (error) {
    if (causeCode(error) === undefined) throw error;
    return false;
  }
  return readKernelFile(path)?.trim() === value;
}

function makeUnlessThere(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    if (!isCode(error, "ENOENT", "EBUSY", "ENOTEMPTY")) throw error;
  }
}
