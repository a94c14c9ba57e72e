/** What is asked of this machine before it is used. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config.ts";
import type { ProbeOptions } from "../engine/oci/probe.ts";
import { warmUpRequests } from "./warm-up-requests.ts";

/** Other bundles lie beside the program's own; a program run from source finds them built. */
export function findBundle(name: string): string {
  const beside = join(import.meta.dirname, name);
  return existsSync(beside) ? beside : join(import.meta.dirname, "../../dist", name);
}

/** The perl programs lie beside the program too; one run from source has them as they are. */
export function findPerlDirectory(): string {
  const beside = import.meta.dirname;
  return existsSync(join(beside, "syscalls.pl")) ? beside : join(beside, "../perl");
}

export function probeOptions(config: Config): ProbeOptions {
  return {
    home: config.home,
    runtime: config.runtime,
    namespaceFault: config.namespaceFault,
    daemon: {
      node: process.execPath,
      bundle: findBundle("envd.cjs"),
      starter: findBundle("envd-starter.cjs"),
      perlDirectory: findPerlDirectory(),
      warmUp: warmUpRequests,
    },
    requireLevel: config.requireIsolation,
  };
}
