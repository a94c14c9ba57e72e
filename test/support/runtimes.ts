/** The OCI runtimes that the security level attacks: the default one, or all that are installed. */

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

/** The names of the runtimes to attack: in a whole run each one that is installed. */
export function attackedRuntimes(): readonly string[] {
  const installed = KNOWN.filter((name) => runtimePath(name) !== undefined);
  return IS_WHOLE_RUN ? installed : installed.slice(0, 1);
}
