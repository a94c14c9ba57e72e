/** The OCI runtimes that the security level attacks: the default one, or all that are installed. */

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { basename, join } from "node:path";

const SENTRY = "runsc";
/** Best first, as the engine tries them. */
const KNOWN = ["crun", "runc", SENTRY];
const FOLDERS = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** Whether this run is the whole one, of `npm run security`. */
export const IS_WHOLE_RUN: boolean = process.env["SECURITY_RUN"] === "whole";
/** The one runtime to attack, in place of the default one or of all. */
const CHOSEN = process.env["SECURITY_RUNTIME"];

/** Where a runtime is installed. */
export function runtimePath(name: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

export interface AttackPlace {
  readonly name: string;
  readonly runtime: string;
  /** Whether the service runs as an ordinary user. */
  readonly isRootless: boolean;
}

/** The services to attack: in a whole run also one that runs without root. */
export function attackPlaces(): readonly AttackPlace[] {
  const places = attackedRuntimes().map((name) => ({ name, runtime: name, isRootless: false }));
  const rootless = { name: "crun without root", runtime: "crun", isRootless: true };
  return IS_WHOLE_RUN && CHOSEN === undefined ? [...places, rootless] : places;
}

/**
 * The names of the runtimes to attack: in a whole run each one that can start a sandbox, otherwise
 * the first one, or the one that `SECURITY_RUNTIME` names.
 */
export function attackedRuntimes(): readonly string[] {
  const able = installedRuntimes().filter((name) => canStart(name));
  if (CHOSEN !== undefined) return able.filter((name) => name === CHOSEN);
  return IS_WHOLE_RUN ? able : able.slice(0, 1);
}

export function installedRuntimes(): readonly string[] {
  return KNOWN.filter((name) => runtimePath(name) !== undefined);
}

/** Whether programs of sandboxes on this runtime have a kernel of their own. */
export function hasOwnKernel(runtime: string): boolean {
  return runtime === SENTRY;
}

/** Whether sudo gives rights: kernels of gVisor's runtimes of 2024 ignore set-id bits. */
export function hasSetId(runtime: string): boolean {
  const path = runtimePath(runtime) ?? runtime;
  return !hasOwnKernel(basename(path)) || prints(path, ["flags"], "-allow-suid");
}

/** The daemon's sockets are descriptors that it inherits, or ports that its own kernel opens. */
function canStart(name: string): boolean {
  const path = runtimePath(name) ?? name;
  return hasOwnKernel(name) ? reachesPorts(path) : prints(path, ["run", "--help"], "preserve-fds");
}

/** Whether a runsc knows the call by which the engine reaches a daemon; that of 2022 does not. */
function reachesPorts(path: string): boolean {
  return prints(path, ["help"], "port-forward");
}

function prints(path: string, words: readonly string[], wanted: string): boolean {
  const { stdout, stderr } = spawnSync(path, words);
  return `${String(stdout)}${String(stderr)}`.includes(wanted);
}

/**
 * A runsc that can be tried: `GVISOR_RUNTIME=PATH`, or one that is installed and knows the call by
 * which the engine reaches a daemon; that of Debian 12 itself does not. `scripts/setup.sh --gvisor`
 * installs one.
 */
export function gvisorRuntime(): string | undefined {
  const path = process.env["GVISOR_RUNTIME"] ?? runtimePath(SENTRY);
  return path !== undefined && reachesPorts(path) ? path : undefined;
}
