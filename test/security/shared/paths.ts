/** Files that all sandboxes have. */

import type { Sandbox } from "e2b";
import type { AttackPlace } from "../../support/runtimes.ts";

/** Folders whose files all sandboxes of a machine or of a template have. */
const FOLDERS = [
  "/run/sandbox-mcp",
  "/run/sandbox-mcp/lib",
  "/usr/bin",
  "/etc",
  "/dev",
  "/proc",
  "/sys/kernel",
];
const MAX_FILES = 24;
const DEVICES = ["null", "zero", "full", "random", "urandom", "tty"];

/** Their paths inside, devices first. */
export async function listPaths(sandbox: Sandbox): Promise<string[]> {
  const look = `for f in ${FOLDERS.join(" ")}; do echo $f; find $f -maxdepth 1 -type f | sort | head -${MAX_FILES}; done`;
  const { stdout } = await sandbox.commands.run(look, { user: "root" });
  const devices = DEVICES.map((name) => `/dev/${name}`);
  // Devices first: files that are covered with one are then told as that one.
  return [...new Set([...devices, ...stdout.trim().split("\n")])].filter(
    (path) => path !== "/dev/tty",
  );
}

/** Who has no root makes no devices for a sandbox: those of the machine are shared, as docs/security.md says. */
export function isKnown({ isRootless }: AttackPlace, path = ""): boolean {
  return isRootless && DEVICES.some((name) => path === `/dev/${name}`);
}
