/** The OCI runtimes that the security level attacks: the default one, or all that are installed. */

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Best first, as the engine tries them. */
const KNOWN = ["crun", "runc", "runsc"];
const FOLDERS = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** Whether this run is the whole one, of `npm run security`. */
export const IS_WHOLE_RUN: boolean = process.env["SECURITY_RUN"] === "whole";

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
  return IS_WHOLE_RUN ? [...places, rootless] : places;
}

/** The names of the runtimes to attack: in a whole run each one that can start a sandbox. */
export function attackedRuntimes(): readonly string[] {
  const able = installedRuntimes().filter((name) => handsOnDescriptors(name));
  return IS_WHOLE_RUN ? able : able.slice(0, 1);
}

export function installedRuntimes(): readonly string[] {
  return KNOWN.filter((name) => runtimePath(name) !== undefined);
}

/** The doors of a daemon are descriptors that it inherits; runsc of 2022 cannot hand on any. */
function handsOnDescriptors(name: string): boolean {
  const { stdout, stderr } = spawnSync(runtimePath(name) ?? name, ["run", "--help"]);
  return `${String(stdout)}${String(stderr)}`.includes("preserve-fds");
}

/**
 * A runsc that can be tried: `GVISOR_RUNTIME=PATH`, or one that is installed and knows the call by
 * which the engine reaches a daemon; that of Debian 12 itself does not. `scripts/setup.sh --gvisor`
 * installs one.
 */
export function gvisorRuntime(): string | undefined {
  const path = process.env["GVISOR_RUNTIME"] ?? runtimePath("runsc");
  if (path === undefined) return undefined;
  const { stdout, stderr } = spawnSync(path, ["help"]);
  return `${String(stdout)}${String(stderr)}`.includes("port-forward") ? path : undefined;
}
