/** What is known of this machine before anything is started on it. */

import { isRootless } from "../common/privilege.ts";
import type { Config } from "../config.ts";
import { recallProbe } from "../engine/oci/probe-cache.ts";
import { findBase } from "./bases.ts";
import { probeOptions } from "./probe-options.ts";

/**
 * Whether the service can be expected to stand when it is needed: it is elsewhere, or this machine
 * has proven before that it can isolate as is asked for now, and has a template.
 */
export async function isKnownToWork(config: Config): Promise<boolean> {
  if (config.engine === "remote") return config.remote !== undefined;
  const mayUseHost = (config.allowHostTemplate ?? true) && !isRootless();
  if (!mayUseHost && (await findBase(config.home)) === undefined) return false;
  return process.platform === "linux" && recallProbe(probeOptions(config)) !== undefined;
}
