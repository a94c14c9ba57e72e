/** The base template that set-up built in the default home of this user; tests use it read-only. */

import { join } from "node:path";
import { findBase } from "../../src/commands/templates/base-layers.ts";
import { defaultHome } from "../../src/common/privilege.ts";
import type { Layer } from "../../src/engine/engine.ts";

export async function baseLayers(): Promise<readonly Layer[]> {
  const home = defaultHome(process.env);
  const layers = await findBase(home);
  if (layers === undefined) {
    throw new Error(`no base template in ${join(home, "layers")}: run scripts/setup.sh`);
  }
  return layers;
}
