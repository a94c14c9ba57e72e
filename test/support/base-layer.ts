/** The base template that set-up built in this machine's home; tests use it read-only. */

import { join } from "node:path";
import { findBase } from "../../src/commands/base-layers.ts";
import type { Layer } from "../../src/engine/engine.ts";

/** The default home of root, where set-up builds. */
const MACHINE_HOME = "/var/lib/sandbox-mcp";

export async function baseLayers(): Promise<readonly Layer[]> {
  const layers = await findBase(MACHINE_HOME);
  if (layers === undefined) {
    throw new Error(`no base template in ${join(MACHINE_HOME, "layers")}: run scripts/setup.sh`);
  }
  return layers;
}
