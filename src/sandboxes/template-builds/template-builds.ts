/** Template builds as a team sees them: requested, given their steps, followed, cancelled. */

import { randomUUID } from "node:crypto";
import { errorText, SandboxError, toSandboxError } from "../../common/errors.ts";
import type { RecordLevel } from "../../common/log-level.ts";
import { asOperation } from "../../common/operation.ts";
import { step } from "../../common/steps.ts";
import type { BuildLine, BuildLineFilter, TemplateBuildRecord } from "../../store/build-records.ts";
import type { BuildRecord, Store, TemplateRecord } from "../../store/store.ts";
import { parseTemplateReference, randomId } from "../../wire/address.ts";
import { foreignNamespace, templateForbidden, templateMissing } from "../../wire/messages.ts";
import { DEFAULT_TAG } from "../built-ins.ts";
import { lookUp, requireReference, type ResolvedTemplate } from "../resolve-template.ts";
import { requireTagPlace } from "../template-tags.ts";
import { resolveImage } from "./base-image.ts";
import { createBuildLog, type BuildLog } from "./build-log.ts";
import { checkPlan, requireFilesHash, type BuildPlan } from "./build-request.ts";
import type { BuildRunner } from "./build-runner.ts";
import { evictSteps } from "./cache.ts";
import { runBuild, StepFailure, undoBuild, type BuildJob } from "./run-build.ts";
import type { StepContext } from "./step-sandbox.ts";

/** Requests of a team that wait for their steps, or for their turn. */
const MAX_OPEN_BUILDS = 100;
const MAX_TAGS = 100;
/** A build that takes longer is taken for one that never ends. */
const BUILD_LIMIT_MS = 2 * 3_600_000;
/** Ended builds of a template of which logs and reasons are kept, the newest. */
const MAX_ENDED_BUILDS = 50;
/** Names of images that mean the template `base`: what clients name when nothing is named. */
const BASE_IMAGES: ReadonlySet<string> = new Set(["e2bdev/base", "e2bdev/base:latest"]);

export type TemplateBuild = TemplateBuildRecord;

export interface BuildRequest {
  /** `name` or `name:tag`. */
  readonly name: string;
  readonly tags: readonly string[];
  readonly cpus: number | undefined;
  readonly memoryMb: number | undefined;
}

export interface BuildStatus {
  readonly build: TemplateBuildRecord;
  readonly lines: readonly BuildLine[];
  /** Lines of the step that failed, the newest; empty otherwise. */
  readonly reasonLines: readonly BuildLine[];
}

export interface TemplateBuilds {
  /**
   * Makes a build that waits for its steps; its template appears with it.
   * @throws SandboxError invalid_argument for a faulty name or tag, resource_exhausted.
   */
  request(wanted: BuildRequest): {
    readonly template: TemplateRecord;
    readonly build: TemplateBuild;
  };
  /**
   * Where the archive of a COPY step is sent, and whether it is there.
   * @throws SandboxError invalid_argument for what is no hash, not_found, permission_denied.
   */
  files(
    template: string,
    hash: string,
  ): Promise<{ readonly isThere: boolean; readonly token: string }>;
  /**
   * Begins a build that waits; builds of the template that run are cancelled.
   * @throws SandboxError failed_precondition when it does not wait, as `files` otherwise.
   */
  start(template: string, buildId: string, plan: BuildPlan): Promise<void>;
  status(template: string, buildId: string, filter: BuildLineFilter): BuildStatus;
  lines(template: string, buildId: string, filter: BuildLineFilter): BuildLine[];
}

export type BuildsContext = StepContext & { readonly runner: BuildRunner };

export function createTemplateBuilds(context: BuildsContext): TemplateBuilds {
  const { store, runner, team } = context;
  return {
    request: (wanted) => requestBuild(context, wanted),
    async files(reference, hash) {
      requireTemplate(context, reference);
      requireFilesHash(hash);
      const path = await runner.uploads.find(team, hash);
      return { isThere: path !== undefined, token: runner.uploads.sign(team, hash) };
    },
    start: (reference, buildId, plan) => startBuild(context, { reference, buildId }, plan),
    status(reference, buildId, filter) {
      const build = requireBuild(context, reference, buildId);
      const lines = store.buildLines.read(buildId, filter);
      return { build, lines, reasonLines: reasonLines(store, build) };
    },
    lines(reference, buildId, filter) {
      requireBuild(context, reference, buildId);
      return store.buildLines.read(buildId, filter);
    },
  };
}

const MAX_REASON_LINES = 20;

function reasonLines(store: Store, { buildId, reason }: TemplateBuild): BuildLine[] {
  if (reason === null) return [];
  const newest = { level: "info", limit: 100, offset: 0, direction: "backward" } as const;
  return store.buildLines
    .read(buildId, newest)
    .filter(({ step: of }) => of === reason.step)
    .slice(0, MAX_REASON_LINES)
    .toReversed();
}

function requestBuild(context: BuildsContext, wanted: BuildRequest) {
  const { store, clock, team, owner } = context;
  const { alias, tags } = parseName(team, wanted);
  return store.transaction(() => {
    const open = store.templateBuilds.all().filter((build) => build.team === team && isOpen(build));
    if (open.length >= MAX_OPEN_BUILDS) {
      throw new SandboxError(
        "resource_exhausted",
        `a team has at most ${MAX_OPEN_BUILDS} builds that have not ended`,
        { retryAfterSeconds: 10 },
      );
    }
    const nowMs = clock.now();
    const name = `${team}/${alias}`;
    const template: TemplateRecord = store.templates.getByName(name) ?? {
      templateId: randomId(),
      kind: "template",
      team,
      name,
      isPublic: false,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
      lastSpawnedAtMs: null,
      spawnCount: 0,
    };
    const { templateId } = template;
    requireTagPlace(context, templateId, tags);
    const build: TemplateBuildRecord = {
      buildId: randomUUID(),
      templateId,
      team,
      owner,
      status: "waiting",
      tags,
      ...(wanted.cpus !== undefined && { cpus: wanted.cpus }),
      ...(wanted.memoryMb !== undefined && { memoryMb: wanted.memoryMb }),
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
      finishedAtMs: null,
      reason: null,
    };
    store.templates.put(template);
    store.templateBuilds.put(build);
    forgetEnded(store, templateId);
    return { template, build };
  });
}

function isOpen({ status }: TemplateBuild): boolean {
  return status === "waiting" || status === "building";
}

function forgetEnded(store: Store, templateId: string): void {
  const ended = store.templateBuilds.ofTemplate(templateId).filter((build) => !isOpen(build));
  for (const { buildId } of ended.slice(MAX_ENDED_BUILDS)) {
    store.templateBuilds.remove(buildId);
    store.buildLines.remove(buildId);
  }
}

function parseName(team: string, { name, tags }: BuildRequest) {
  const parsed = parseTemplateReference(name);
  if (parsed === undefined) {
    throw new SandboxError("invalid_argument", `Invalid name: ${name.slice(0, 200)}`);
  }
  if (parsed.namespace !== undefined && parsed.namespace !== team) {
    throw new SandboxError("invalid_argument", foreignNamespace(parsed.namespace, team));
  }
  const faulty = tags.find((tag) => parseTemplateReference(`x:${tag}`)?.tag !== tag.toLowerCase());
  if (faulty !== undefined || tags.length > MAX_TAGS) {
    throw new SandboxError("invalid_argument", `Invalid tag: ${(faulty ?? "").slice(0, 200)}`);
  }
  const all = [parsed.tag ?? [], ...tags.map((tag) => tag.toLowerCase())].flat();
  return { alias: parsed.alias, tags: all.length === 0 ? [DEFAULT_TAG] : [...new Set(all)] };
}

/** @throws SandboxError not_found, permission_denied for a public one of another team. */
function requireTemplate(context: BuildsContext, reference: string): TemplateRecord {
  const template = lookUp(context, requireReference(reference));
  if (template === undefined) throw new SandboxError("not_found", templateMissing(reference));
  if (template.kind !== "built-in" && template.team === context.team) return template;
  throw new SandboxError("permission_denied", templateForbidden(reference));
}

function requireBuild(context: BuildsContext, reference: string, buildId: string): TemplateBuild {
  const { templateId } = requireTemplate(context, reference);
  const build = context.store.templateBuilds.get(buildId);
  if (build?.templateId === templateId) return build;
  throw new SandboxError("not_found", `Build ${buildId.slice(0, 64)} not found`);
}

async function startBuild(
  context: BuildsContext,
  { reference, buildId }: { readonly reference: string; readonly buildId: string },
  plan: BuildPlan,
): Promise<void> {
  const { store, clock, runner, owner } = context;
  const waiting = requireBuild(context, reference, buildId);
  checkPlan(plan);
  const template = requireTemplate(context, reference);
  const record = store.transaction((): TemplateBuild => {
    const current = store.templateBuilds.get(buildId) ?? waiting;
    if (current.status !== "waiting") {
      throw new SandboxError(
        "invalid_argument",
        `build is not in waiting state: ${current.status}`,
      );
    }
    const begun: TemplateBuild = {
      ...current,
      owner,
      status: "building",
      updatedAtMs: clock.now(),
    };
    store.templateBuilds.put(begun);
    return begun;
  });
  await step("build.begun");
  const log = createBuildLog(context, buildId);
  runner.begin({
    buildId,
    templateId: template.templateId,
    limitMs: BUILD_LIMIT_MS,
    onWait: () => log.note("base", "waiting for another build to end"),
    async work(signal) {
      try {
        const facts = { record, template, plan, log, signal };
        await asOperation("template.build", () => run(context, facts));
      } catch (error) {
        context.log.error({ op: "template.build", buildId, err: error }, "build left traces");
      }
    },
  });
}

/** How a build ends is recorded. */
async function run(
  context: BuildsContext,
  facts: Pick<BuildJob, "record" | "template" | "plan" | "log" | "signal">,
): Promise<void> {
  const { record, log } = facts;
  const { buildId, templateId } = record;
  const beganMs = performance.now();
  const job: BuildJob = {
    ...facts,
    resolveBase: (current) => resolveBase(context, current),
    findFiles: (hash) => context.runner.uploads.find(context.team, hash),
  };
  let outcome = "ok";
  try {
    const build = await runBuild(context, job);
    facts.signal.throwIfAborted();
    log.note("finalize", "the template is ready");
    commit(context, record, build);
  } catch (error) {
    outcome = "fault";
    context.log.debug({ op: "template.build", buildId, templateId, err: error }, "build failed");
    await undoBuild(context, buildId);
    fail(context, { record, log, signal: facts.signal }, error);
  }
  const durationMs = Math.round(performance.now() - beganMs);
  context.log.info(
    { op: "template.build", buildId, templateId, durationMs, outcome },
    "template.build ended",
  );
  await step("build.committed");
  await evictSteps(context);
}

/** Build, tags and state appear together. */
function commit(context: BuildsContext, record: TemplateBuild, build: BuildRecord): void {
  const { store, clock } = context;
  store.transaction(() => {
    const template = store.templates.get(record.templateId);
    if (template === undefined) throw new SandboxError("canceled", "the template was removed");
    const nowMs = clock.now();
    const limits = { ...context.limits, ...limitsOfSetup(build) };
    store.builds.put({ ...build, limits, updatedAtMs: nowMs, finishedAtMs: nowMs });
    requireTagPlace(context, template.templateId, record.tags);
    for (const tag of record.tags) {
      const { templateId, buildId } = record;
      store.builds.tag({ templateId, tag, buildId, createdAtMs: nowMs });
    }
    store.templates.put({ ...template, updatedAtMs: nowMs });
    store.templateBuilds.put({
      ...record,
      status: "ready",
      updatedAtMs: nowMs,
      finishedAtMs: nowMs,
    });
  });
}

function limitsOfSetup({ setup }: BuildRecord) {
  const { cpus, memoryMb } = setup ?? {};
  return { ...(cpus !== undefined && { cpus }), ...(memoryMb !== undefined && { memoryMb }) };
}

function fail(
  context: BuildsContext,
  { record, log, signal }: { record: TemplateBuild; log: BuildLog; signal: AbortSignal },
  error: unknown,
): void {
  const { store, clock } = context;
  const failed = error instanceof StepFailure ? error.step : "finalize";
  const cause = error instanceof StepFailure ? error.cause : error;
  const isClosing = context.closing.aborted;
  const message = isClosing ? SERVICE_ENDED : reasonOf(signal.aborted ? signal.reason : cause);
  log.note(failed, message, "error");
  const nowMs = clock.now();
  store.transaction(() => {
    // A template that was removed takes its builds with it.
    if (store.templateBuilds.get(record.buildId) === undefined) return;
    store.templateBuilds.put({
      ...record,
      status: "error",
      updatedAtMs: nowMs,
      finishedAtMs: nowMs,
      reason: { message, step: failed },
    });
  });
}

/** What is ours to tell: the faults of the steps, not those of the service. */
function reasonOf(cause: unknown): string {
  if (cause instanceof DOMException && cause.name === "TimeoutError") {
    return `the build took longer than ${BUILD_LIMIT_MS / 60_000} minutes`;
  }
  const fault = toSandboxError(cause, "build");
  if (fault.code === "internal") return "internal error";
  return fault.hint === undefined ? errorText(fault) : `${errorText(fault)} (${fault.hint})`;
}

async function resolveBase(context: BuildsContext, job: BuildJob): Promise<ResolvedTemplate> {
  const { from } = job.plan;
  const { signal } = job;
  if (from.kind === "image" && !BASE_IMAGES.has(from.reference)) {
    return resolveImage(context, job, from);
  }
  const reference = from.kind === "image" ? "base" : from.reference;
  return context.templates.resolve(reference, { signal });
}

const SERVICE_ENDED = "the service ended while the template was being built";

/** A build that an instance left says so; its layers are orphans then. */
export function failUnfinished(store: Store, owner: string, nowMs: number): void {
  for (const build of store.templateBuilds.unfinishedOfOwner(owner)) {
    const message = SERVICE_ENDED;
    store.templateBuilds.put({
      ...build,
      status: "error",
      updatedAtMs: nowMs,
      finishedAtMs: nowMs,
      reason: { message, step: "finalize" },
    });
    const level: RecordLevel = "error";
    store.buildLines.append(build.buildId, [{ atMs: nowMs, level, step: "finalize", message }]);
  }
}
