/** Runs a build from its base to a layer that sandboxes start from. */

import { join } from "node:path";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import type { TemplateBuildRecord, TemplateSetup } from "../../store/build-records.ts";
import type { BuildRecord, TemplateRecord } from "../../store/store.ts";
import { hasCommands, runCommands } from "../boot/start-command.ts";
import { writeBuild } from "../builds/builds.ts";
import { countBuiltIn, removeLayers, toLayers, unnamedFolders } from "../builds/layer-folders.ts";
import { forgetLive } from "../builds/live-builds.ts";
import { squashLayers } from "../builds/squash-layers.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import type { BuildLog } from "./build-log.ts";
import type { BuildPlan, BuildStep } from "./build-request.ts";
import { baseKey, cacheTemplateId, finalKey, stepKey } from "./cache.ts";
import { beginDockerfile, endDockerfile, type BuildBase } from "./dockerfile-state.ts";
import { requireSpace } from "./free-space.ts";
import { hold, holdCached, holdFound } from "./hold.ts";
import { keepLive } from "./keep-live.ts";
import { applyEnv, isRecordOnly, runStep, type StepState } from "./run-step.ts";
import { startStepSandbox, type StepContext } from "./step-sandbox.ts";

/** The commands of a template prove themselves in this time. */
const READY_LIMIT_MS = 10 * 60_000;
/** What a start command gets that comes without a ready command, before it is taken for running. */
const DEFAULT_READY_COMMAND = "sleep 20";
/** A chain below a template of another build is kept as it is, unless it is this long. */
const MAX_KEPT_LAYERS = 12;

/** Names the step at which a build failed. */
export class StepFailure extends Error {
  readonly step: string;

  constructor(name: string, cause: unknown) {
    super(`step ${name} failed`, { cause });
    this.step = name;
  }
}

export interface BuildJob {
  readonly record: TemplateBuildRecord;
  readonly template: TemplateRecord;
  readonly plan: BuildPlan;
  readonly log: BuildLog;
  readonly signal: AbortSignal;
  resolveBase(job: BuildJob): Promise<BuildBase>;
  findFiles(hash: string): Promise<string | undefined>;
  /** @throws SandboxError resource_exhausted when the team's layers take too much of the disk. */
  requireSpace(): Promise<void>;
}

/** Where a build stands: the layers so far, what holds for the next step, and the key of both. */
interface Stage {
  readonly build: BuildRecord;
  readonly state: StepState;
  readonly key: string;
}

/** A build that is ready, and is not yet recorded so. @throws StepFailure */
export async function runBuild(context: StepContext, job: BuildJob): Promise<BuildRecord> {
  const { plan, log } = job;
  const base = await named("base", async () => {
    // One that was cancelled while it waited for its turn has none.
    job.signal.throwIfAborted();
    const found = await job.resolveBase(job);
    holdFound(context, job, found.build);
    return found;
  });
  const first = firstStage(context, job, base);
  await step("build.based");
  if (plan.from.kind === "template") log.note("base", `base ${plan.from.reference}`);
  const last = await runSteps(context, job, first);
  return named("finalize", () => finish(context, job, { base: base.build, last }));
}

async function named<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StepFailure) throw error;
    throw new StepFailure(name, error);
  }
}

/** Of a snapshot the files alone: its programs have not the environment and the commands of the template. */
function firstStage(context: StepContext, { plan }: BuildJob, base: BuildBase): Stage {
  const { memory: _memory, ...build } = base.build;
  const own = stateOf(build);
  const isDockerfile = plan.fromDockerfile === true;
  const state = isDockerfile ? beginDockerfile(own, base) : own;
  return { build, state, key: baseKey(context.team, build, { ...state, isDockerfile }) };
}

async function runSteps(context: StepContext, job: BuildJob, first: Stage): Promise<Stage> {
  const { steps, force } = job.plan;
  const keys: string[] = [];
  for (const wanted of steps) keys.push(stepKey(keys.at(-1) ?? first.key, wanted));
  const forced = force ? 0 : steps.findIndex((wanted) => wanted.force);
  const usable = forced === -1 ? steps.length : forced;
  // The last one that is there has all that is below it.
  const found = await holdCached(context, job, keys.slice(0, usable));
  const done = found === undefined ? 0 : found.index + 1;
  let stage = found === undefined ? first : toStage(found.build, keys[found.index] ?? "");
  for (const [index, wanted] of steps.entries()) {
    const name = String(index + 1);
    const title = `[${name}/${steps.length}] ${describe(wanted)}`;
    if (index < done) {
      job.log.note(name, `CACHED ${title}`);
      continue;
    }
    job.signal.throwIfAborted();
    job.log.note(name, title);
    const current = stage;
    const key = keys[index] ?? "";
    stage = await named(name, () => takeStep(context, job, { wanted, name, stage: current, key }));
    hold(context, job, stage.build);
  }
  return stage;
}

function toStage(build: BuildRecord, key: string): Stage {
  return { build, state: stateOf(build), key };
}

interface Turn {
  readonly wanted: BuildStep;
  readonly name: string;
  readonly stage: Stage;
  readonly key: string;
}

async function takeStep(context: StepContext, job: BuildJob, turn: Turn): Promise<Stage> {
  const { wanted, name, stage, key } = turn;
  if (isRecordOnly(wanted)) return { ...stage, state: applyEnv(stage.state, wanted), key };
  const { template, signal } = job;
  // By the row that holds its layers: that of the base, or of a cached step, may be removed meanwhile.
  const build = { ...withState(job, stage), buildId: job.record.buildId };
  await job.requireSpace();
  await using sandbox = await startStepSandbox(context, { template, build }, signal);
  const lines = job.log.open(name);
  const state = await runStep(wanted, stage.state, {
    daemon: sandbox.daemon,
    signal,
    lines,
    fromDockerfile: job.plan.fromDockerfile === true,
    findFiles: (hash) => job.findFiles(hash),
  });
  await step("build.stepped");
  signal.throwIfAborted();
  const kept = await writeBuild(context, sandbox, {
    templateId: cacheTemplateId(context),
    form: "layer",
    commit(ready) {
      const cached = { ...withState(job, { build: ready, state }), cacheKey: key };
      context.store.builds.put(cached);
      // At once: a step on which no build stands may be forgotten.
      hold(context, job, cached);
      return cached;
    },
  });
  await step("build.cached");
  return { build: kept, state, key };
}

/** The record of a stage as its sandboxes see it: what holds so far, and no commands. */
function withState({ record }: BuildJob, { build, state }: Omit<Stage, "key">) {
  const { cpus, memoryMb } = record;
  const setup: TemplateSetup = {
    environment: { ...state.environment },
    startCommand: "",
    readyCommand: "",
    ...(cpus !== undefined && { cpus }),
    ...(memoryMb !== undefined && { memoryMb }),
  };
  return { ...build, defaultUser: state.user, defaultWorkdir: state.workdir, setup };
}

function stateOf({ defaultUser, defaultWorkdir, setup }: BuildRecord): StepState {
  return { user: defaultUser, workdir: defaultWorkdir, environment: setup?.environment ?? {} };
}

interface Ends {
  readonly base: BuildRecord;
  readonly last: Stage;
}

async function finish(context: StepContext, job: BuildJob, ends: Ends): Promise<BuildRecord> {
  const { record, plan, template, log } = job;
  const { state: last } = ends.last;
  const state = plan.fromDockerfile === true ? endDockerfile(last, ends.base, plan.steps) : last;
  const whole = withState(job, { build: ends.last.build, state });
  const startCommand = plan.startCommand ?? ends.base.setup?.startCommand ?? "";
  const inherited = plan.startCommand === undefined ? ends.base.setup?.readyCommand : undefined;
  const readyCommand = plan.readyCommand ?? inherited ?? "";
  const isolation = plan.isolation ?? ends.base.setup?.isolation;
  const setup: TemplateSetup = {
    ...whole.setup,
    startCommand,
    readyCommand,
    ...(isolation !== undefined && { isolation }),
  };
  const key = finalKey(ends.last.key, [setup, whole.defaultUser, whole.defaultWorkdir]);
  const isForced = plan.force || plan.steps.some(({ force }) => force);
  const known = isForced ? undefined : (await holdCached(context, job, [key]))?.build;
  const layers = known?.layers ?? (await flatten(context, job, ends));
  const build: BuildRecord = {
    ...whole,
    layers,
    setup,
    cacheKey: key,
    buildId: record.buildId,
    templateId: template.templateId,
    owner: context.owner,
    status: "ready",
    sourceSandboxId: null,
    createdAtMs: record.createdAtMs,
  };
  // Its sandbox starts from the layers that the build has now.
  hold(context, job, build);
  if (known === undefined || (await keepsLive(context, build))) await prove(context, job, build);
  else log.note("finalize", "CACHED start and ready commands");
  return build;
}

/** Whether sandboxes of a build begin with the memory of one, which no other build can give it. */
async function keepsLive({ engine }: StepContext, build: BuildRecord): Promise<boolean> {
  if (!hasCommands(build)) return false;
  const level = build.setup?.isolation ?? (await engine.probe()).level;
  return level === "gvisor";
}

/** The layers of all steps as one upon those of the base. */
async function flatten(context: StepContext, job: BuildJob, ends: Ends) {
  const { buildId } = job.record;
  const { base, last } = ends;
  const kept = base.layers.length <= MAX_KEPT_LAYERS ? base.layers.length : countBuiltIn(base);
  const isUponBase = base.layers.every(
    ({ root }, index) => root === last.build.layers[index]?.root,
  );
  const lowest = isUponBase ? kept : countBuiltIn(last.build);
  if (last.build.layers.length - lowest <= 1) return last.build.layers;
  job.log.note("finalize", "making one layer of all steps");
  const directory = join(context.layersDirectory, buildId);
  const layers = toLayers(context.layersDirectory, last.build);
  await requireSpace(context);
  const { signal } = job;
  const squashed = await squashLayers(context, { layers, kept: lowest, directory, signal });
  await step("build.squashed");
  return [...last.build.layers.slice(0, lowest), context.templates.toStored(squashed)];
}

/** Runs the commands once, as each start of a sandbox will. */
async function prove(context: StepContext, job: BuildJob, build: BuildRecord): Promise<void> {
  const { startCommand = "", readyCommand = "" } = build.setup ?? {};
  if (startCommand === "" && readyCommand === "") return;
  const { template, signal, log } = job;
  const parts = [
    startCommand && `start command ${startCommand}`,
    readyCommand && `ready command ${readyCommand}`,
  ];
  for (const part of parts) if (part !== "") log.note("finalize", part);
  await using sandbox = await startStepSandbox(context, { template, build }, signal);
  const lines = log.open("finalize");
  const commands = { startCommand, readyCommand: readyCommand || DEFAULT_READY_COMMAND };
  const onOutput = (bytes: Uint8Array) => lines.write("stdout", bytes);
  try {
    await runCommands(sandbox.daemon, commands, { signal, limitMs: READY_LIMIT_MS, onOutput });
  } finally {
    lines.end();
  }
  await step("build.proven");
  await keepLive(context, sandbox, { build, log });
}

/**
 * Removes what a build that failed has made of its own; cached steps stay. Its row goes with a template that
 * is removed, and its memory may be kept after that.
 */
export async function undoBuild(
  context: Pick<StepContext, "layersDirectory" | "log" | "retry" | "store">,
  buildId: string,
): Promise<void> {
  const { store, layersDirectory } = context;
  await cleanUpOrRetry(context, `build ${buildId}`, async () => {
    const live = store.transaction(() => forgetLive(store, [{ buildId }]));
    await removeLayers(layersDirectory, unnamedFolders(store, live));
    await removeTree(join(layersDirectory, buildId));
    store.builds.remove(buildId);
  });
}

function describe({ type, args }: BuildStep): string {
  // Values of variables may be secrets; logs of a build are read by many.
  const shown = isRecordOnly({ type }) ? args.filter((_arg, index) => index % 2 === 0) : args;
  return `${type} ${shown.join(" ")}`.replaceAll(/\s+/g, " ").slice(0, 200);
}
