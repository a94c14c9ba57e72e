/** The engine that the configuration names: its options, its privileges and whether it works here. */

import { SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import type { Config } from "../../config.ts";
import type { DaemonSources } from "../../engine/daemon/daemon.ts";
import { ISOLATION_LEVELS, type Engine, type EngineReport } from "../../engine/engine.ts";
import { canShareUsr } from "../../engine/host/id-maps.ts";
import { namespaceFault } from "../../engine/network/namespace-file.ts";
import { ENGINES, type EngineOptions, type EngineRow } from "../../engine/registry.ts";
import type { Command } from "../program/command.ts";
import { findProgramFiles, type ProgramFiles } from "../program/program-files.ts";
import { findBase } from "../templates/base-layers.ts";
import { warmUpRequests } from "./warm-up-requests.ts";

/**
 * Starts nothing and looks at nothing before the engine is used.
 * @param service what a running service has: the files that it uses, default the installed ones, and its log.
 */
export async function createEngine(
  config: Config,
  service?: { readonly files: ProgramFiles; readonly log: Logger },
): Promise<Engine> {
  return rowOf(config).create({ ...toOptions(config, service?.files), log: service?.log });
}

/** What the engine reports of this machine. One that is weaker than required is not usable, whatever it says. */
export async function probeEngine(
  engine: Engine,
  { requireIsolation: required }: Pick<Config, "requireIsolation">,
  freshness: "cached" | "fresh" = "cached",
): Promise<EngineReport> {
  const report = await engine.probe(freshness);
  const isStrong = ISOLATION_LEVELS.indexOf(report.level) >= ISOLATION_LEVELS.indexOf(required);
  if (isStrong || !report.isUsable) return report;
  const check = {
    name: "isolation",
    outcome: "missing",
    detail: `${report.level} is weaker than the required ${required}`,
  } as const;
  return { ...report, isUsable: false, checks: [...report.checks, check] };
}

/** The operating system that the engine needs, if this is another one. */
export function missingPlatform(config: Config): NodeJS.Platform | undefined {
  const { platform } = rowOf(config);
  return platform === process.platform ? undefined : platform;
}

/**
 * Whether the service can be expected to start when it is needed: it is remote, or this machine has
 * passed the probe with this configuration and has a template.
 */
export async function isKnownToWork(config: Config): Promise<boolean> {
  if (config.engine === "remote") return config.remote !== undefined;
  const outside = config.egress?.namespace;
  if (outside !== undefined && namespaceFault(outside) !== undefined) return false;
  const mayUseHost = (config.allowHostTemplate ?? true) && canShareUsr();
  if (!mayUseHost && (await findBase(config.home)) === undefined) {
    if (!config.buildsBase) return false;
    const { findTemplateLack } = await import("../templates/template-lack.ts");
    if ((await findTemplateLack(config.home)) !== undefined) return false;
  }
  return missingPlatform(config) === undefined && rowOf(config).isProven(toOptions(config));
}

/** @throws SandboxError failed_precondition for an `--egress` that is not there, or that is no namespace */
export function requireEgressFile({ egress }: Pick<Config, "egress">): void {
  const fault = egress?.namespace && namespaceFault(egress.namespace);
  if (!fault) return;
  throw new SandboxError("failed_precondition", `--egress ${fault}`, {
    hint: "name the file of a network namespace, such as /run/netns/NAME, or on or off",
  });
}

/**
 * The configuration with the reason why an ordinary user has no privileges for the engine, if there
 * is one. Where the user can have them, this process is replaced by one that has.
 */
export async function withPrivileges(command: Command, config: Config): Promise<Config> {
  const isHere = config.engine !== "remote" && config.engine !== "kubernetes";
  const isNeeded = command.hasEngine && isHere && process.getuid?.() !== 0;
  if (!isNeeded || config.namespaceFault !== undefined) return config;
  return {
    ...config,
    namespaceFault: await rowOf(config).gainPrivileges(
      config.home,
      findProgramFiles().perlDirectory,
    ),
  };
}

/** Commands that work on the home itself do so for a configuration of a remote service too. */
function rowOf({ engine }: Config): EngineRow {
  return ENGINES[engine === "remote" || engine === "kubernetes" ? "local" : engine];
}

function toOptions(config: Config, files: ProgramFiles = findProgramFiles()): EngineOptions {
  return {
    home: config.home,
    runtime: config.runtime,
    namespaceFault: config.namespaceFault,
    daemon: daemonSources(files),
    requireLevel: config.requireIsolation,
    guardian: files.guardian,
    encryptsMemory: config.encryptsSnapshots,
    egress: config.egress && { ...config.egress, program: files.egress },
  };
}

/** What the daemon of a sandbox consists of on this machine. */
export function daemonSources(files: ProgramFiles): DaemonSources {
  const { bundle, starter, perlDirectory, interpreterDirectory } = files;
  const node = process.execPath;
  return { node, bundle, starter, perlDirectory, interpreterDirectory, warmUp: warmUpRequests };
}
