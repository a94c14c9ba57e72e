/** The engine of this machine, as the configuration wants it. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config.ts";
import type { Engine } from "../engine/engine.ts";
import { createOciEngine } from "../engine/oci.ts";

/** Other bundles lie beside the program's own; a program run from source finds them built. */
function findBundle(name: string): string {
  const beside = join(import.meta.dirname, name);
  return existsSync(beside) ? beside : join(import.meta.dirname, "../../dist", name);
}

/** Nothing is started or looked at before the engine is used. */
export function createLocalEngine(config: Config): Engine {
  return createOciEngine({
    home: config.home,
    runtime: config.runtime,
    namespaceFault: config.namespaceFault,
    daemon: { node: process.execPath, bundle: findBundle("envd.cjs") },
    requireLevel: config.requireIsolation,
    egress: config.egress && { ...config.egress, program: findBundle("egress.mjs") },
  });
}
