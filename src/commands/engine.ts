/** The engine that the configuration names: its options, its privileges and whether it works here. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config.ts";
import type { DaemonSources } from "../engine/daemon/daemon.ts";
import type { Engine } from "../engine/engine.ts";
import { canShareUsr } from "../engine/host/id-maps.ts";
import { ENGINES, type EngineOptions, type EngineRow } from "../engine/registry.ts";
import { canBuildBase } from "../engine/templates/base.ts";
import type { Command } from "./command.ts";
import { findBase } from "./home.ts";
import { warmUpRequests } from "./warm-up-requests.ts";

/** Starts nothing and looks at nothing before the engine is used. */
export async function createEngine(config: Config): Promise<Engine> {
  return rowOf(config).create(toOptions(config));
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
  const mayUseHost = (config.allowHostTemplate ?? true) && (await canShareUsr());
  if (!mayUseHost && (await findBase(config.home)) === undefined) {
    if (!config.buildsBase || !canBuildBase()) return false;
  }
  return missingPlatform(config) === undefined && rowOf(config).isProven(toOptions(config));
}

/**
 * The configuration with the reason why an ordinary user has no privileges for the engine, if there
 * is one. Where the user can have them, this process is replaced by one that has.
 */
export async function withPrivileges(command: Command, config: Config): Promise<Config> {
  const isNeeded = command.hasEngine && config.engine === "local" && process.getuid?.() !== 0;
  if (!isNeeded || config.namespaceFault !== undefined) return config;
  return {
    ...config,
    namespaceFault: await rowOf(config).gainPrivileges(config.home, findPerlDirectory()),
  };
}

/** Commands that work on the home itself do so for a configuration of a remote service too. */
function rowOf({ engine }: Config): EngineRow {
  return ENGINES[engine === "remote" || engine === "kubernetes" ? "local" : engine];
}

function toOptions(config: Config): EngineOptions {
  return {
    home: config.home,
    runtime: config.runtime,
    namespaceFault: config.namespaceFault,
    daemon: daemonSources(),
    requireLevel: config.requireIsolation,
    guardian: findGuardian(),
    egress: config.egress && { ...config.egress, program: findBundle("egress.mjs") },
  };
}

/** What the daemon of a sandbox consists of on this machine. */
export function daemonSources(): DaemonSources {
  return {
    node: process.execPath,
    bundle: findBundle("envd.cjs"),
    starter: findBundle("envd-starter.cjs"),
    perlDirectory: findPerlDirectory(),
    interpreterDirectory: findInterpreterDirectory(),
    warmUp: warmUpRequests,
  };
}

/** Other bundles lie beside the program's own; a program run from source finds them built. */
function findBundle(name: string): string {
  const beside = join(import.meta.dirname, name);
  return existsSync(beside) ? beside : join(import.meta.dirname, "../../dist", name);
}

/** The shell program of the guardian, found in the same way. */
function findGuardian(): string {
  const beside = join(import.meta.dirname, "guardian.sh");
  return existsSync(beside) ? beside : join(import.meta.dirname, "../shell/guardian.sh");
}

/** The Perl programs lie beside the program too; one run from source has them as they are. */
export function findPerlDirectory(): string {
  const beside = import.meta.dirname;
  return existsSync(join(beside, "syscalls.pl")) ? beside : join(beside, "../perl");
}

/** The code interpreter lies beside the program or, run from source, in its own directory. */
function findInterpreterDirectory(): string {
  const beside = join(import.meta.dirname, "interpreter");
  return existsSync(beside) ? beside : join(import.meta.dirname, "../interpreter");
}
