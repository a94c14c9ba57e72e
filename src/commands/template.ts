/** `template list|show|build|pull`: the templates of the home. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type CleanUpFailure, describeFailure } from "../common/clean-up.ts";
import { SandboxError } from "../common/errors.ts";
import { escapeUnsafe } from "../common/untrusted-text.ts";
import { withLock } from "../engine/host/lock.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import { openStore } from "../store/sqlite.ts";
import { DEFAULT_TEAM, type BuildRecord, type Store } from "../store/store.ts";
import { buildNewBase, pruneBuiltIns } from "./built-ins.ts";
import type { CommandContext } from "./command.ts";
import { findBase, openHome } from "./home.ts";
import { listenForStopSignals } from "./process-end.ts";
import { buildTemplate } from "./template-build/build.ts";

const EXIT_OK = 0;

export async function runTemplate(context: CommandContext): Promise<number> {
  const [action, name] = context.words;
  await openHome(context.config.home);
  if (action === "list") return listTemplates(context);
  if (action === "build") return buildTemplate(context, name);
  if (action === "show") return showTemplate(context, name);
  if (action === "pull") return pullTemplate(context, name);
  throw usage(`template ${action ?? ""}: no such action`);
}

async function listTemplates({ config }: CommandContext): Promise<number> {
  using store = openStore({ path: join(config.home, "state.db") });
  const templates = store.templates.all();
  const isBaseBuilt = (await findBase(config.home)) !== undefined;
  if (isBaseBuilt && !templates.some(({ name }) => name === "base")) {
    process.stdout.write("base  (built, not used yet)\n");
  }
  for (const { templateId, name, kind, createdAtMs } of templates) {
    const [build] = readyBuilds(store, templateId);
    const size = build === undefined ? "not built" : sizeOf(build);
    const start = build?.setup?.startCommand ? `start: ${cut(build.setup.startCommand)}` : "";
    const createdAt = new Date(createdAtMs).toISOString();
    const columns = [name ?? templateId, templateId, kind, createdAt, size, start];
    process.stdout.write(`${columns.filter((column) => column !== "").join("  ")}\n`);
  }
  return EXIT_OK;
}

function showTemplate({ config }: CommandContext, wanted: string | undefined): number {
  using store = openStore({ path: join(config.home, "state.db") });
  const reference = wanted ?? "";
  const template = [`${DEFAULT_TEAM}/${reference}`, reference]
    .map((name) => store.templates.getByName(name))
    .concat(store.templates.get(reference))
    .find((found) => found !== undefined);
  if (template === undefined) {
    throw new SandboxError("not_found", `template ${cut(reference)} not found`);
  }
  const { templateId, name, kind, createdAtMs } = template;
  const [build] = readyBuilds(store, templateId);
  const tags = store.builds.tags(templateId).map(({ tag }) => tag);
  const [last] = store.templateBuilds.ofTemplate(templateId);
  const rows = {
    name: name ?? "",
    id: templateId,
    kind,
    created: new Date(createdAtMs).toISOString(),
    tags: tags.join(", "),
    size: build === undefined ? "not built" : sizeOf(build),
    built: build === undefined ? "" : new Date(build.updatedAtMs).toISOString(),
    user: build?.defaultUser ?? "",
    folder: build?.defaultWorkdir ?? "",
    start: cut(build?.setup?.startCommand ?? ""),
    ready: cut(build?.setup?.readyCommand ?? ""),
    "last build": last === undefined ? "" : `${last.status} ${cut(last.reason?.message ?? "")}`,
  };
  for (const [label, value] of Object.entries(rows)) {
    if (value !== "") process.stdout.write(`${label.padEnd(LABEL_CELLS)}${value}\n`);
  }
  return EXIT_OK;
}

const LABEL_CELLS = 12;
const MAX_TEXT_CHARACTERS = 120;

function readyBuilds(store: Store, templateId: string): BuildRecord[] {
  return store.builds.ofTemplate(templateId).filter(({ status }) => status === "ready");
}

function sizeOf({ limits }: BuildRecord): string {
  return `${limits.cpus} CPU, ${limits.memoryMb} MB`;
}

/** Text of a template, which can be that of anybody. */
function cut(text: string): string {
  return escapeUnsafe(text.slice(0, MAX_TEXT_CHARACTERS));
}

async function pullTemplate({ config }: CommandContext, name: string | undefined): Promise<number> {
  if (name !== "base") throw usage(`template pull ${name ?? ""}: only base can be pulled`);
  using stops = listenForStopSignals();
  await mkdir(join(config.home, LAYERS), { recursive: true, mode: 0o700 });
  const isNew = await buildNewBase({
    home: config.home,
    signal: stops.signal,
    ifMissing: config.ifMissing,
    onProgress: (message) => process.stdout.write(`${message}\n`),
  });
  if (!isNew) return EXIT_OK;
  using store = openStore({ path: join(config.home, "state.db") });
  const { home } = config;
  const prune = async () => pruneBuiltIns(home, store, tell);
  for (const removed of await withLock({ home, name: "reclaim", signal: stops.signal }, prune)) {
    process.stdout.write(`removed ${removed}\n`);
  }
  process.stdout.write("base is built; services use it from their next start on\n");
  return EXIT_OK;
}

function tell(failure: CleanUpFailure): void {
  process.stderr.write(describeFailure(failure));
}

function usage(message: string): SandboxError {
  return new SandboxError("invalid_argument", message, {
    hint: "template list, template show NAME, template build [DIR], template pull base",
  });
}
