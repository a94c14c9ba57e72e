/** The engine of this machine, as the configuration wants it. */

import type { Config } from "../config.ts";
import type { Engine } from "../engine/engine.ts";
import { createOciEngine } from "../engine/oci/oci.ts";
import { findBundle, probeOptions } from "./probe-options.ts";

/** Nothing is started or looked at before the engine is used. */
export function createLocalEngine(config: Config): Engine {
  return createOciEngine({
    ...probeOptions(config),
    egress: config.egress && { ...config.egress, program: findBundle("egress.mjs") },
  });
}
