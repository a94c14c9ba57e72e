/** What a machine must have before any container can be tried on it, each with its remedy. */

import { existsSync, readFileSync } from "node:fs";
import { access, constants, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { errorText, isCode } from "../../common/errors.ts";
import { makeFolders } from "../../common/make-folders.ts";
import { hasRight, isRootless, mayNotGain, readPrivilege } from "../../common/privilege.ts";
import type { EngineCheck } from "../engine.ts";
import { findProgram } from "../host/find-program.ts";
import { isOnOverlay } from "../host/id-maps.ts";
import { hasRunDirectory, RUN_DIRECTORY } from "../host/id-ranges.ts";
import { installCommand } from "../host/install-command.ts";
import { isEnough, MIN_OPEN_FILES, readOpenFiles } from "../host/open-files.ts";
import { runProgram } from "../host/run-program.ts";
import { hasCgroups, isHybrid, missingControllers, type CgroupHost } from "./cgroups.ts";
import { CONTROLLERS } from "./delegation.ts";
import { checkProcessLimits } from "./process-limits.ts";

/** The programs of the host that every container needs. */
const TOOLS = ["perl", "umount", "mkfs.ext4", "setpriv", "flock", "cp", "sync", "ldd"] as const;

const CONTROLLER_NAMES = { memory: "memory", pids: "processes", cpu: "processors" } as const;

export interface RequirementOptions {
  /** Paths of the runtimes that were found. */
  readonly candidates: readonly string[];
  /** What was asked for. */
  readonly runtime: string;
  readonly namespaceFault: string | undefined;
  readonly bundle: string;
  readonly cgroups: CgroupHost;
  readonly home: string;
}

export async function checkRequirements(wanted: RequirementOptions): Promise<EngineCheck[]> {
  const { candidates, cgroups } = wanted;
  const found = TOOLS.map((tool) => findProgram(tool));
  const missing = TOOLS.filter((_tool, index) => found[index] === undefined);
  return [
    checkSystem(process.versions),
    checkPrivilege(cgroups, wanted.namespaceFault),
    check("programs", missing.join(", ") || "all found", missing.length === 0 || installCommand()),
    check(
      "runtime",
      candidates.join(", ") || wanted.runtime,
      candidates.length > 0 || runtimeRemedy(wanted.runtime),
    ),
    check("overlay", "overlay", (await hasOverlay()) || "modprobe overlay"),
    check(
      "loop",
      "/dev/loop-control",
      isRootless() || (await exists("/dev/loop-control")) || "modprobe loop",
    ),
    check(
      "user namespaces",
      "/proc/self/ns/user",
      (await exists("/proc/self/ns/user")) || "boot a kernel with CONFIG_USER_NS",
    ),
    await checkHome(wanted.home),
    checkRunDirectory(),
    checkCgroups(cgroups),
    checkOpenFiles(),
    checkProcessLimits(),
    check("daemon", wanted.bundle, (await exists(wanted.bundle)) || "npm run build"),
  ];
}

/** Settings of the kernel, of which networks of sandboxes have their own; also what a probe is known by. */
const SETTINGS = "/proc/sys";

/** What no other check can be made without, as in a systemd unit that sees processes alone in /proc. */
export function findProcFault(settings = SETTINGS): EngineCheck | undefined {
  if (existsSync(settings)) return undefined;
  const remedy = "mount the whole of /proc, as ProcSubset=all of systemd leaves it";
  return check("proc", `${settings} is not there`, remedy);
}

/** The kernel loads it for the first mount that asks, also for one that then fails. */
async function hasOverlay(): Promise<boolean> {
  if (await knowsOverlay()) return true;
  // Without layers it is refused, on every kernel.
  await runProgram(["mount", "-t", "overlay", "overlay", "/mnt"]).catch(() => undefined);
  return knowsOverlay();
}

async function knowsOverlay(): Promise<boolean> {
  return /\boverlay$/m.test(await readFile("/proc/filesystems", "utf8"));
}

/** Plug'n'Play of Yarn puts its own functions for files in the place of Node's, and lacks some. */
export function checkSystem({ pnp }: NodeJS.ProcessVersions): EngineCheck {
  const system = `${process.platform} ${process.arch}`;
  if (pnp === undefined) return check("system", system, isSupported() || SYSTEM_REMEDY);
  return check("system", `${system} with the Plug'n'Play of Yarn`, YARN_REMEDY);
}

const SYSTEM_REMEDY = "use Linux on x64 or arm64";
const YARN_REMEDY =
  "start the program with npx, or install it with `nodeLinker: node-modules` in .yarnrc.yml";

function runtimeRemedy(wanted: string): string {
  if (["auto", "crun", "runc", "runsc"].includes(wanted)) return installCommand();
  return "no program is there: give --runtime the path of one, or auto, crun, runc or runsc";
}

/**
 * The files of templates are shown with the ids of each sandbox, which is not possible everywhere; an
 * ordinary user's sandboxes all have the same ids.
 */
export async function checkHome(home: string): Promise<EngineCheck> {
  if (!(await isWritable(home))) return check("home", `${home} cannot be written to`, UNWRITABLE);
  if (isRootless() || !isOnOverlay(home)) return check("home", home, true);
  const detail = `${home}: an overlay cannot be mounted with the ids of sandboxes`;
  return check("home", detail, HOME_REMEDY);
}

const UNWRITABLE = "make it writable, or use another folder with --home";

/** Makes the home where a doctor is the first to use it; what is in its way is a check that fails. */
export function makeHome(home: string): EngineCheck | undefined {
  try {
    makeFolders(home, 0o700);
    return undefined;
  } catch (error) {
    return check("home", `${home} cannot be made: ${errorText(error)}`, UNWRITABLE);
  }
}

/** Where all services of the machine claim numbers. */
function checkRunDirectory(): EngineCheck {
  return check("run directory", RUN_DIRECTORY, hasRunDirectory() || "mount -t tmpfs tmpfs /run");
}

/** What helps where the files of a home cannot have the ids of sandboxes. */
export const HOME_REMEDY =
  "use --home with a folder on ext4, XFS, Btrfs or tmpfs; in a container, that of a volume";

/** One that is not there is made in the nearest directory that is. */
async function isWritable(path: string): Promise<boolean> {
  try {
    await access(path, constants.W_OK);
    return true;
  } catch (error) {
    return isCode(error, "ENOENT") && path !== dirname(path) && isWritable(dirname(path));
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (isCode(error, "ENOENT", "EACCES", "ENOTDIR")) return false;
    throw error;
  }
}

/** How many files the service, and each sandbox, may have open at most. */
export function checkOpenFiles(limits?: string): EngineCheck {
  const hard = readOpenFiles(limits);
  const holds = isEnough(hard, MIN_OPEN_FILES.shared);
  const remedy = `ulimit -Hn ${MIN_OPEN_FILES.shared}, or more`;
  return check("open files", `at most ${hard}`, holds || remedy);
}

/** What launcher, runtime and clean-up do as root, by the kernel's numbers; @see capabilities(7). */
const NEEDED_RIGHTS: readonly (readonly [name: string, right: number])[] = [
  ["CAP_CHOWN", 0],
  ["CAP_DAC_OVERRIDE", 1],
  ["CAP_SETGID", 6],
  ["CAP_SETUID", 7],
  ["CAP_SETPCAP", 8],
  ["CAP_SYS_CHROOT", 18],
  ["CAP_SYS_PTRACE", 19],
  ["CAP_SYS_ADMIN", 21],
  ["CAP_MKNOD", 27],
];

/** What layers are made with, of files of all owners; sandboxes start without. */
const COPY_RIGHTS: typeof NEEDED_RIGHTS = [
  ["CAP_FOWNER", 3],
  ["CAP_SETFCAP", 31],
];

/** What a container or unit needs whose own rules refuse what sandboxes are made of. */
export const RIGHTS_REMEDY =
  "in a container, start that with --privileged; in a systemd unit, leave out CapabilityBoundingSet, " +
  "ProtectKernelTunables and ProtectControlGroups";

export function checkRoot(status: string): EngineCheck {
  const lacks = namesOfMissing(status, NEEDED_RIGHTS);
  if (lacks !== "") return check("root", `user id 0 without ${lacks}`, RIGHTS_REMEDY);
  const faults: { readonly detail: string; readonly remedy: string }[] = [];
  const less = namesOfMissing(status, COPY_RIGHTS);
  if (less !== "") {
    const detail = `without ${less}: snapshots and builds of templates fail`;
    faults.push({ detail, remedy: RIGHTS_REMEDY });
  }
  if (mayNotGain(status)) {
    faults.push({
      detail: "with no_new_privs: sudo and su do not work in sandboxes",
      remedy: "start this program without no_new_privs, as NoNewPrivileges of systemd sets it",
    });
  }
  if (faults.length === 0) return check("root", "user id 0", true);
  const details = faults.map(({ detail }) => detail).join("; ");
  const remedy = faults.map((fault) => fault.remedy).join("; ");
  return { name: "root", outcome: "warning", detail: `user id 0 ${details}`, remedy };
}

function namesOfMissing(status: string, rights: typeof NEEDED_RIGHTS): string {
  const lacks = rights.filter(([, right]) => !hasRight(status, right));
  return lacks.map(([name]) => name).join(", ");
}

/** Of root and of others, where no other reason is known. */
const NO_PRIVILEGE = {
  root: "user id 0 of a user namespace that maps too few ids",
  other: "no user namespace",
} as const;

/** Root, or root in a namespace of its own: then what is lost is named. */
function checkPrivilege(cgroups: CgroupHost, known: string | undefined): EngineCheck {
  const name = "root";
  const privilege = readPrivilege();
  if (privilege === "machine") return checkRoot(readFileSync("/proc/self/status", "utf8"));
  if (privilege === "namespace") {
    return {
      name,
      outcome: "warning",
      detail:
        "user namespace without root: one id range for all sandboxes, no limit on the " +
        `${listUnlimited(cgroups).join(", ")} of a sandbox as a whole, no template host`,
      remedy: "run as root to have them",
    };
  }
  const detail = known ?? NO_PRIVILEGE[process.getuid?.() === 0 ? "root" : "other"];
  return { name, outcome: "missing", detail, remedy: "fix that, or run as root" };
}

/** A check that holds, or the command that fixes it. */
function check(name: string, detail: string, held: true | string): EngineCheck {
  if (held === true) return { name, outcome: "ok", detail };
  return { name, outcome: "missing", detail, remedy: held };
}

function isSupported(): boolean {
  return process.platform === "linux" && ["x64", "arm64"].includes(process.arch);
}

/** Without root, what a sandbox as a whole may use without end. */
function listUnlimited({ delegation }: CgroupHost): string[] {
  const isHeld = (name: keyof typeof CONTROLLER_NAMES) => delegation?.controllers.includes(name);
  const names = CONTROLLERS.filter((name) => isHeld(name) !== true);
  return [...names.map((name) => CONTROLLER_NAMES[name]), "disk"];
}

function checkCgroups(host: CgroupHost): EngineCheck {
  const detail = describeCgroups(host);
  if (!isRootless()) {
    const missing = hasCgroups(host) ? missingControllers(host) : [];
    if (missing.length === 0) return check("cgroups", detail, hasCgroups(host) || CGROUPS_REMEDY);
    const remedy = missing.includes("memory") ? MEMORY_REMEDY : CONTROLLERS_REMEDY;
    return check("cgroups", `${detail} without ${missing.join(", ")}`, remedy);
  }
  if (host.delegation !== undefined) return check("cgroups", detail, true);
  return { name: "cgroups", outcome: "warning", detail, remedy: DELEGATION_REMEDY };
}

/** Distributions of small computers start their kernel without that one. */
const MEMORY_REMEDY = "start the kernel with cgroup_enable=memory";
const CONTROLLERS_REMEDY = "mount their trees, or use a kernel that has them";

/** A container sees those of its machine read-only. */
const CGROUPS_REMEDY = `mount -t cgroup2 none /sys/fs/cgroup; ${RIGHTS_REMEDY}`;

/** Started from a terminal, a program is in a cgroup of root's; so it is in one of the user. */
const DELEGATION_REMEDY =
  "on a machine with systemd and cgroup version 2 alone, start it by systemd-run --user --scope";

function describeCgroups(host: CgroupHost): string {
  if (host.delegation !== undefined) {
    const names = host.delegation.controllers.map((name) => CONTROLLER_NAMES[name]);
    return `delegated, limits hold: ${names.join(", ")}`;
  }
  if (isHybrid(host)) return "hybrid";
  if (!hasCgroups(host)) return isRootless() ? "none delegated to this user" : "none writable";
  return host.unified === undefined ? "version 1" : "version 2";
}
