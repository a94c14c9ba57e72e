/**
 * The program as process 1 of a container. The kernel gives it the first processes of sandboxes, whose
 * runtime has ended; Node collects only its own children, so two zombies would stay of each sandbox.
 */

import type { Config } from "../../config.ts";
import type { Command } from "./command.ts";
import { findProgramFiles } from "./program-files.ts";

/** Other commands end soon, and their container with them. */
const SERVERS: ReadonlySet<string> = new Set(["serve", "stdio"]);

/**
 * Replaces process 1 by an init that starts the same program as its child. Returns in any other
 * process, and where no sandbox can be started here.
 */
export async function startBelowInit(
  { name }: Pick<Command, "name">,
  { engine }: Pick<Config, "engine">,
): Promise<void> {
  if (process.pid !== 1 || !SERVERS.has(name) || engine !== "local") return;
  const { becomeInit } = await import("../../engine/host/init.ts");
  const { checkSystem } = await import("../../engine/oci/requirements.ts");
  if (checkSystem(process.versions).outcome !== "ok") return;
  becomeInit(findProgramFiles().perlDirectory);
}
