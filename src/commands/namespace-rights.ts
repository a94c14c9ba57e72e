/** The rights that containers need, for who does not run as root. */

import type { Config } from "../config.ts";
import type { Command } from "./index.ts";
import { findPerlDirectory } from "./probe-options.ts";

/**
 * Replaces this process by the same program with the rights of root over a namespace of its own;
 * returns where it has them, where the command needs none, and with the reason where it gets none.
 */
export async function withNamespaceRights(command: Command, config: Config): Promise<Config> {
  const isNeeded = command.hasEngine && config.engine === "local" && process.getuid?.() !== 0;
  if (!isNeeded || config.namespaceFault !== undefined) return config;
  const { enterOwnNamespace } = await import("../engine/host/user-namespace.ts");
  const namespaceFault = await enterOwnNamespace(config.home, findPerlDirectory());
  return { ...config, namespaceFault };
}
