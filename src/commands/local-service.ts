/** The sandbox service of this machine, embedded in this process. */

import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import { isRootless } from "../common/privilege.ts";
import type { Config } from "../config.ts";
import type { Engine } from "../engine/engine.ts";
import { findBase } from "./bases.ts";
import { builtInTemplates } from "./built-ins.ts";
import {
  startEmbeddedService,
  type EmbeddedService,
  type EmbeddedServiceOptions,
} from "./embedded-service.ts";
import { createLocalEngine } from "./engine.ts";
import { openHome } from "./home.ts";
import { findPerlDirectory } from "./probe-options.ts";

/** How the two commands that embed the service differ. */
export type LocalOptions = Pick<
  EmbeddedServiceOptions,
  | "instance"
  | "tcp"
  | "apiKeys"
  | "onExit"
  | "allowHostTemplate"
  | "poolSize"
  | "startMcp"
  | "graceMs"
  | "hasMetrics"
>;

/**
 * Starts the service once this machine has proven that it can isolate.
 * @throws SandboxError unavailable when it cannot or has no template, failed_precondition when it
 * is weaker than required; the hint is the command that mends it.
 */
export async function startLocal(
  config: Config,
  log: Logger,
  options: LocalOptions,
): Promise<EmbeddedService> {
  await openHome(config.home);
  const engine = createLocalEngine(config);
  await requireUsable(engine);
  // Files of this machine's root cannot be shown with a sandbox's ids without being root.
  const allowHostTemplate = options.allowHostTemplate && !isRootless();
  if (!allowHostTemplate && (await findBase(config.home)) === undefined) {
    throw new SandboxError("unavailable", "the template base was not built", {
      hint: "sandbox-mcp template pull base",
    });
  }
  return startEmbeddedService({
    ...options,
    allowHostTemplate,
    home: config.home,
    engine,
    limits: config.limits,
    maxSandboxes: config.maxSandboxes,
    maxSandboxesPerTeam: config.maxSandboxesPerTeam,
    builtIns: builtInTemplates(config.home, findPerlDirectory()),
    domain: config.domain,
    log,
  });
}

async function requireUsable(engine: Engine): Promise<void> {
  const report = await engine.probe();
  if (report.isUsable) return;
  const missing = report.checks.find((check) => check.outcome === "missing");
  const code = missing?.name === "isolation" ? "failed_precondition" : "unavailable";
  const detail = missing === undefined ? "nothing works" : `${missing.name}: ${missing.detail}`;
  throw new SandboxError(code, `this machine cannot isolate: ${detail}`, {
    hint: missing?.remedy ?? "sandbox-mcp doctor",
  });
}
