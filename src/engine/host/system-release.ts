/** Which release of Debian, or of a child of it, this system is. */

import { existsSync, readFileSync } from "node:fs";

const SYSTEM = "/etc/os-release";

/** What the system says of itself; at once, since a host may wait for it. */
export function readSystem(): string {
  return existsSync(SYSTEM) ? readFileSync(SYSTEM, "utf8") : "";
}

/** Undefined for a system that names none. */
export function findRelease(system: string): string | undefined {
  return /^VERSION_CODENAME="?([a-z]+)"?$/m.exec(system)?.[1];
}
