/** Runs a build and records how it ended, whichever way; and those that an instance left. */

import { hidePaths, isCode, SandboxError, toSandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { TemplateBuildRecord } from "../../store/build-records.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { limitsOf } from "../builds/build-limits.ts";
import { removeLayers, unnamedFolders } from "../builds/layer-folders.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { requireTagPlace } from "../templates/template-tags.ts";
import { resolveImage } from "./base-image.ts";
import type { BuildLog } from "./build-log.ts";
import type { BuildRunner } from "./build-runner.ts";
import { evictSteps } from "./cache.ts";
import type { BuildBase } from "./dockerfile-state.ts";
import { removeOldBuilds } from "./old-builds.ts";
import { runBuild, StepFailure, undoBuild, type BuildJob } from "./run-build.ts";
import type { StepContext } from "./step-sandbox.ts";
import { requireLayerSpace } from "./team-limits.ts";

/** A build that takes longer is taken for one that never ends. */
export const BUILD_LIMIT_MS = 2 * 3_600_000;
/** Names of images that mean the template `base`: what clients name when nothing is named. */
const BASE_IMAGES: ReadonlySet<string> = new Set(["e2bdev/base", "e2bdev/base:latest"]);

export type BuildsContext = StepContext & { readonly runner: BuildRunner };

/** How a build ends is recorded. */
export async function endBuild(
  context: BuildsContext,
  facts: Pick<BuildJob, "record" | "template" | "plan" | "log" | "signal">,
): Promise<void> {
  const { record, log } = facts;
  const { buildId, templateId } = record;
  const beganMs = performance.now();
  const bases: BuildRecord[] = [];
  const job: BuildJob = {
    ...facts,
    async resolveBase(current) {
      const base = await resolveBase(context, current);
      bases.push(base.build);
      return base;
    },
    findFiles: (hash) => context.runner.uploads.find(context.team, hash),
    requireSpace: () => requireLayerSpace(context, context.runner.layerSizes),
  };
  let outcome = "ok";
  try {
    const build = await runBuild(context, job);
    facts.signal.throwIfAborted();
    commit(context, { record, log }, build);
  } catch (error) {
    outcome = "fault";
    context.log.debug({ op: "template.build", buildId, templateId, err: error }, "build failed");
    await undoBuild(context, buildId);
    await fail(context, { record, log, signal: facts.signal }, error);
  }
  const durationMs = Math.round(performance.now() - beganMs);
  context.log.info(
    { op: "template.build", buildId, templateId, durationMs, outcome },
    "template.build ended",
  );
  await step("build.committed");
  await releaseRemoved(context, bases);
  await evictSteps(context);
  removeOldBuilds(context, templateId);
}

/** Of what was removed while a build stood on it, that build had the last name of layers and disk. */
async function releaseRemoved(
  context: BuildsContext,
  bases: readonly BuildRecord[],
): Promise<void> {
  const { store, layersDirectory } = context;
  const removed = bases.filter(({ buildId }) => store.builds.get(buildId) === undefined);
  if (removed.length === 0) return;
  await cleanUpOrRetry(context, "layers of a removed base", async () => {
    const folders = store.transaction(() => unnamedFolders(store, removed));
    await removeLayers(layersDirectory, folders);
  });
}

/** Build, tags and state appear together. */
function commit(
  context: BuildsContext,
  { record, log }: Pick<BuildJob, "record" | "log">,
  build: BuildRecord,
): void {
  const { store, clock } = context;
  store.transaction(() => {
    const template = store.templates.get(record.templateId);
    if (template === undefined) throw new SandboxError("canceled", "the template was removed");
    const nowMs = clock.now();
    const limits = limitsOf(context.limits, build);
    store.builds.put({ ...build, limits, updatedAtMs: nowMs, finishedAtMs: nowMs });
    requireTagPlace(context, template.templateId, record.tags);
    for (const tag of record.tags) {
      const { templateId, buildId } = record;
      store.builds.tag({ templateId, tag, buildId, createdAtMs: nowMs });
    }
    store.templates.put({ ...template, updatedAtMs: nowMs });
    // Before the state, for a client that stops to read lines then, and after all that may fail.
    log.note("finalize", "the template is ready");
    store.templateBuilds.put({
      ...record,
      status: "ready",
      updatedAtMs: nowMs,
      finishedAtMs: nowMs,
    });
  });
}

/**
 * A build may fail because the disk is full, which also its end needs: it is recorded when it can be, and
 * told from now on.
 */
async function fail(
  context: BuildsContext,
  { record, log, signal }: { record: TemplateBuildRecord; log: BuildLog; signal: AbortSignal },
  error: unknown,
): Promise<void> {
  const { store, clock, runner } = context;
  const { buildId } = record;
  const failed = error instanceof StepFailure ? error.step : "finalize";
  const cause = error instanceof StepFailure ? error.cause : error;
  const isClosing = context.closing.aborted;
  const message = isClosing ? SERVICE_ENDED : reasonOf(signal.aborted ? signal.reason : cause);
  const nowMs = clock.now();
  const ended: TemplateBuildRecord = {
    ...record,
    status: "error",
    updatedAtMs: nowMs,
    finishedAtMs: nowMs,
    reason: { message, step: failed },
  };
  let isNoted = false;
  const end = (): void => {
    // A template that was removed takes its builds with it, and what they said since.
    if (store.templateBuilds.get(buildId) === undefined) {
      store.buildLines.remove(buildId);
      return;
    }
    // The lines are in a database of their own: a state that is not written leaves its line.
    if (!isNoted) log.note(failed, message, "error");
    isNoted = true;
    store.templateBuilds.put(ended);
  };
  runner.unrecorded.set(buildId, ended);
  await cleanUpOrRetry(context, `end of build ${buildId}`, async () => {
    store.transaction(end);
    runner.unrecorded.delete(buildId);
  });
}

/** What is ours to tell: the faults of the steps, not those of the service. */
function reasonOf(cause: unknown): string {
  if (cause instanceof DOMException && cause.name === "TimeoutError") {
    return `the build took longer than ${BUILD_LIMIT_MS / 60_000} minutes`;
  }
  const fault = toSandboxError(cause, "build");
  if (fault.code === "internal") return "internal error";
  // Which file or database of the service met it first says nothing to a client.
  const message = isCode(fault, "ENOSPC") ? DISK_FULL : fault.message;
  const text = fault.hint === undefined ? message : `${message} (${fault.hint})`;
  // Faults of the machine may quote its paths; those of steps speak of the sandbox.
  const isPlain = fault.hasSandboxPaths || fault.code === "invalid_argument";
  return isPlain ? text : hidePaths(text);
}

async function resolveBase(context: BuildsContext, job: BuildJob): Promise<BuildBase> {
  const { from } = job.plan;
  const { signal } = job;
  if (from.kind === "image" && !BASE_IMAGES.has(from.reference)) {
    return resolveImage(context, job, from);
  }
  const reference = from.kind === "image" ? "base" : from.reference;
  return context.templates.resolve(reference, { signal });
}

const DISK_FULL = "no space left on the disk of the service";
const SERVICE_ENDED = "the service ended while the template was being built";

/** A build that an instance left says so; its layers are orphans then. */
export function failUnfinished(
  store: Pick<Store, "templateBuilds" | "buildLines">,
  owner: string,
  nowMs: number,
): void {
  for (const build of store.templateBuilds.unfinishedOfOwner(owner)) {
    const message = SERVICE_ENDED;
    // First: a client stops to read lines at the state, and after a crash between both it is repeated.
    store.buildLines.append(build.buildId, [
      { atMs: nowMs, level: "error", step: "finalize", message },
    ]);
    store.templateBuilds.put({
      ...build,
      status: "error",
      updatedAtMs: nowMs,
      finishedAtMs: nowMs,
      reason: { message, step: "finalize" },
    });
  }
}
