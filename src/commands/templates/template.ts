/** `template list|build|pull|import|export|show|remove`: the templates of the home. */

import assert from "node:assert";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { printFailure } from "../../common/clean-up.ts";
import { SandboxError } from "../../common/errors.ts";
import { quoteName, quoteUntrusted } from "../../common/untrusted-text.ts";
import type { Config } from "../../config.ts";
import { withLock } from "../../engine/host/lock.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { createBuildProgress } from "../../engine/templates/base-progress.ts";
import { INTERPRETER_TEMPLATE } from "../../engine/templates/interpreter.ts";
import { limitsOf } from "../../sandboxes/builds/build-limits.ts";
import { requireKnownContent } from "../../sandboxes/reclaim/lost-database.ts";
import { openStore } from "../../store/sqlite.ts";
import type { BuildRecord } from "../../store/store.ts";
import { openHome } from "../home/home.ts";
import { EXIT_OK, type CommandContext } from "../program/command.ts";
import { untilStopped } from "../program/process-end.ts";
import { showCommandOn } from "../program/show-progress.ts";
import { findBase } from "./base-layers.ts";
import type { BuildTarget } from "./build-target.ts";
import { readBuildTime } from "./build-times.ts";
import { BASE_BUILD, pruneBuiltIns } from "./built-ins.ts";
import { INTERPRETER_BUILD } from "./interpreter-build.ts";

/** The templates that can be built here. */
const PULLED: Readonly<Record<string, BuildTarget>> = {
  base: BASE_BUILD,
  [INTERPRETER_TEMPLATE]: INTERPRETER_BUILD,
};
const NEXT_USE: Readonly<Record<string, string>> = {
  base: "services use it from their next start on",
};

export async function runTemplate(context: CommandContext): Promise<number> {
  const { config, words } = context;
  const [action, name] = words;
  const fault = faultOf(words);
  if (fault !== undefined) throw usage(fault);
  // These three make a home, and only once all that was typed has been looked at.
  if (action === "build") {
    const { buildTemplate } = await import("../template-build/build.ts");
    return untilStopped(async (signal) => buildTemplate(context, name, signal));
  }
  if (action === "pull") return pull(config, name ?? "");
  if (action === "import") {
    const { importTemplate } = await import("./template-images.ts");
    return untilStopped(async (signal) => importTemplate(config, name ?? "", signal));
  }
  await openHome(config.home);
  if (action === "list") return listTemplates(context);
  assert(name !== undefined);
  if (action === "export") {
    const { exportTemplate } = await import("./template-export.ts");
    const target = { name, file: words[2] ?? "" };
    return untilStopped(async (signal) => exportTemplate(config, target, signal));
  }
  if (action === "show") return (await import("./template-records.ts")).showTemplate(config, name);
  assert(action === "remove");
  return (await import("./template-records.ts")).removeTemplate(config, name);
}

async function pull(config: Config, name: string): Promise<number> {
  if (Object.hasOwn(PULLED, name)) {
    return untilStopped(async (signal) => pullBuiltIn(config, name, signal));
  }
  if (config.ifMissing) {
    const names = Object.keys(PULLED).join(" and ");
    throw new SandboxError("invalid_argument", `--if-missing: a flag of template pull ${names}`);
  }
  const { pullImageTemplate } = await import("./template-images.ts");
  return untilStopped(async (signal) => pullImageTemplate(config, name, signal));
}

async function listTemplates({ config }: CommandContext): Promise<number> {
  using store = openStore({ path: join(config.home, "state.db") });
  const templates = store.templates.all();
  const isBaseBuilt = (await findBase(config.home)) !== undefined;
  if (isBaseBuilt && !templates.some(({ name }) => name === "base")) {
    process.stdout.write("base  (built, not used yet)\n");
  }
  for (const { templateId, name, kind, createdAtMs } of templates) {
    const createdAt = new Date(createdAtMs).toISOString();
    const build = store.builds.ofTemplate(templateId).find(({ status }) => status === "ready");
    const size = build === undefined ? "not built" : sizeOf(build);
    const command = build?.setup?.startCommand;
    const start = command ? `  ${quoteUntrusted(command)}` : "";
    const line = `${name ?? templateId}  ${templateId}  ${kind}  ${createdAt}  ${size}${start}`;
    process.stdout.write(`${line}\n`);
  }
  return EXIT_OK;
}

/** By the limits of the service that registered it, which may have other settings than this command. */
function sizeOf(build: BuildRecord): string {
  const { cpus, memoryMb } = limitsOf(build.limits, build);
  return `${cpus} CPU ${memoryMb} MB`;
}

/** A built-in template has the limits of the service that uses it, and comes from no registry. */
const OF_IMAGES: ReadonlySet<string> = new Set(["cpus", "memory-mb", "registry-mirror"]);

async function pullBuiltIn(config: Config, name: string, signal: AbortSignal): Promise<number> {
  if (config.templateName !== undefined) {
    throw new SandboxError("invalid_argument", `--name: ${name} is built under its own name`);
  }
  const idle = config.flags.find((flag) => OF_IMAGES.has(flag));
  if (idle !== undefined) {
    const fault = `--${idle}: a flag of template pull IMAGE, not of template pull ${name}`;
    throw new SandboxError("invalid_argument", fault);
  }
  await openHome(config.home, signal);
  const target = PULLED[name] ?? BASE_BUILD;
  using store = openStore({ path: join(config.home, "state.db") });
  // Snapshots that a lost database names may stand on the layers that are removed below.
  await requireKnownContent(config.home, store);
  await mkdir(join(config.home, LAYERS), { recursive: true, mode: 0o700 });
  const isNew = await showBuild(config.home, name, (onProgress) =>
    target.build({ home: config.home, signal, ifMissing: config.ifMissing, onProgress }),
  );
  if (!isNew) return EXIT_OK;
  const { home } = config;
  const prune = async () => pruneBuiltIns(home, store, printFailure);
  for (const removed of await withLock({ home, name: "reclaim", signal }, prune)) {
    process.stdout.write(`removed ${removed}\n`);
  }
  process.stdout.write(`${name} is built; ${NEXT_USE[name] ?? "services use it from now on"}\n`);
  return EXIT_OK;
}

async function showBuild<T>(
  home: string,
  name: string,
  build: (onProgress: (line: string) => void) => Promise<T>,
): Promise<T> {
  const expectedMs = await readBuildTime(home, name);
  const progress = createBuildProgress(Date.now(), Date.now, expectedMs);
  using shown = showCommandOn(process.stdout, `building ${name}`, progress);
  return await build((line) => shown.line(line));
}

/** The actions that name what they work on. */
const NAMING: ReadonlySet<string> = new Set(["export", "import", "pull", "remove", "show"]);

/** The others. */
const NAMELESS: ReadonlySet<string> = new Set(["build", "list"]);

function faultOf([action, name, file]: readonly string[]): string | undefined {
  if (action === undefined) return "template: no action";
  if (NAMELESS.has(action)) return undefined;
  if (!NAMING.has(action)) return `template ${quoteName(action)}: no such action`;
  if (name === undefined) return `template ${action}: nothing is named`;
  return action === "export" && file === undefined ? "template export: no file" : undefined;
}

function usage(message: string): SandboxError {
  return new SandboxError("invalid_argument", message, {
    hint:
      "template list, build [DIR] [-f FILE] [--name N], pull base|code-interpreter [--if-missing], " +
      "pull IMAGE [--name N], show NAME, remove NAME, export NAME FILE, import FILE [--name N]",
  });
}
