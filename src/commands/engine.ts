/** The engine of this machine, as the configuration wants it. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config.ts";
import type { Engine } from "../engine/engine.ts";
import { createOciEngine } from "../engine/oci.ts";

/** The daemon's bundle lies beside the program's own; a program run from source finds it built. */
function findDaemonBundle(): string {
  const beside = join(import.meta.dirname, "envd.mjs");
  return existsSync(beside) ? beside : join(import.meta.dirname, "../../dist/envd.mjs");
}

/** Nothing is started or looked at before the engine is used. */
export function createLocalEngine(config: Config): Engine {
  return createOciEngine({
    home: config.home,
    runtime: config.runtime,
    namespaceFault: config.namespaceFault,
    daemon: { node: process.execPath, bundle: findDaemonBundle() },
    requireLevel: config.requireIsolation,
    egress: config.egress,
  });
}
