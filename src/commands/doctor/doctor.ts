/** `doctor`: what this machine can isolate with, and the command that brings what is missing. */

import { isRootless } from "../../common/privilege.ts";
import { oneLine } from "../../common/untrusted-text.ts";
import type { Config } from "../../config.ts";
import type { EngineCheck, EngineReport } from "../../engine/engine.ts";
import { canShareUsr } from "../../engine/host/id-maps.ts";
import { installCommand } from "../../engine/host/install-command.ts";
import { sharesBlocks } from "../../engine/storage/disk-copy.ts";
import { hasStoreImage, STORE_NAMES } from "../../engine/storage/store-image.ts";
import { findBuildLack } from "../../engine/templates/base.ts";
import { hasSkopeo } from "../../images/skopeo.ts";
import { commandLine } from "../program/command-line.ts";
import { EXIT_OK, EXIT_UNAVAILABLE, type CommandContext } from "../program/command.ts";
import { untilStopped } from "../program/process-end.ts";
import { createEngine, probeEngine } from "../service/engine.ts";
import { findBase, hasLostModes } from "../templates/base-layers.ts";
import { findTemplateLack } from "../templates/template-lack.ts";
import { checkOutside } from "./outside-check.ts";

export async function runDoctor(context: CommandContext): Promise<number> {
  const { config } = context;
  // What it tries is a container and a sandbox, which end before the program does.
  if (config.engine !== "kubernetes") {
    return untilStopped(async (signal) => checkMachine(context, signal));
  }
  const { probeConfiguredCluster } = await import("./doctor-cluster.ts");
  return tell(config, await probeConfiguredCluster(config));
}

async function checkMachine({ config, log }: CommandContext, signal: AbortSignal): Promise<number> {
  const engine = await createEngine(config);
  const report = await probeEngine(engine, config, "fresh");
  signal.throwIfAborted();
  const outside = report.isUsable ? await checkOutside(config, log, signal) : [];
  const own = [await checkBase(config), await checkStorage(config), checkImages()];
  const checks = [...report.checks, ...own, ...outside];
  const isUsable =
    report.isUsable && [...own, ...outside].every(({ outcome }) => outcome !== "missing");
  return tell(config, {
    ...report,
    isUsable,
    checks: checks.map((check) => ofNamed(config, check)),
  });
}

/** As it would be in the home that was named, where that is not there and another place was tried. */
function ofNamed({ home, givenHome = home }: Config, check: EngineCheck): EngineCheck {
  if (home === givenHome) return check;
  const { name, outcome, detail, remedy } = check;
  if (name === "home" && outcome === "ok") {
    const hint = "the first service makes it; name that of a service with --home";
    return { name, outcome: "warning", detail: `${givenHome} does not exist yet`, remedy: hint };
  }
  return {
    ...check,
    detail: detail.replaceAll(home, givenHome),
    ...(remedy !== undefined && { remedy: remedy.replaceAll(home, givenHome) }),
  };
}

function tell(config: Config, report: EngineReport): number {
  const { checks } = report;
  const verdict = report.isUsable
    ? `usable: ${report.runtime}, isolation ${report.level}`
    : "not usable";
  const text = config.json
    ? JSON.stringify(report, null, 2)
    : [...checks.map((check) => describe(check)), verdict].join("\n");
  process.stdout.write(`${text}\n`);
  return report.isUsable ? EXIT_OK : EXIT_UNAVAILABLE;
}

function describe(check: EngineCheck): string {
  const remedy = check.remedy === undefined ? "" : ` → ${check.remedy}`;
  // A program, a cluster or a sandbox may have said it.
  return oneLine(`${check.outcome.padEnd(8)} ${check.name}: ${check.detail}${remedy}`);
}

/** The level of storage: what snapshots and forks cost. */
async function checkStorage({ home }: Config): Promise<EngineCheck> {
  const name = "storage";
  const told = (detail: string): EngineCheck => ({ name, outcome: "ok", detail });
  if (isRootless()) return told("copy: without root, snapshots and forks copy files");
  if (await sharesBlocks(home).catch(() => false)) {
    return told("clone: the home shares blocks between files");
  }
  return hasStoreImage(home)
    ? told(`clone: ${STORE_NAMES.image} shares blocks between files`)
    : told("copy: the home shares no blocks; --store-gb makes a store that does");
}

/** Without it everything else works. */
function checkImages(): EngineCheck {
  const name = "images";
  if (hasSkopeo()) return { name, outcome: "ok", detail: "skopeo" };
  return {
    name,
    outcome: "warning",
    detail: "no skopeo: images of registries cannot be fetched",
    remedy: installCommand(),
  };
}

async function checkBase(config: Config): Promise<EngineCheck> {
  // A home that cannot be read is what another check says.
  const [layer] = (await findBase(config.home).catch(() => undefined)) ?? [];
  if (layer !== undefined) return { name: "template base", outcome: "ok", detail: layer.root };
  const hasHost = canShareUsr();
  const lostModes = await hasLostModes(config.home, "base").catch(() => false);
  const lacks = lostModes ? "the modes of its files were changed" : "not built yet";
  const state = hasHost ? `${lacks}; a stdio server uses the template host until then` : lacks;
  const lack = findBuildLack();
  if (lack === undefined) {
    const remedy = commandLine(config, "template pull base");
    return { name: "template base", outcome: "warning", detail: state, remedy };
  }
  const { detail, hint } = lack;
  const ofHome = await findTemplateLack(config.home, lack).catch(() => lack);
  const isEnough = hasHost || ofHome === undefined;
  const outcome = isEnough ? "warning" : "missing";
  return { name: "template base", outcome, detail: `${state}; ${detail}`, remedy: hint };
}
