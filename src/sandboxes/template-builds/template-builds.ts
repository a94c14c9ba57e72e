/** Template builds as a team sees them: requested, given their steps, followed, cancelled. */

import { randomUUID } from "node:crypto";
import { waitAtMost } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import { asOperation } from "../../common/operation.ts";
import { step } from "../../common/steps.ts";
import type { BuildLine, BuildLineFilter, TemplateBuildRecord } from "../../store/build-records.ts";
import type { Store, TemplateRecord } from "../../store/store.ts";
import { parseTemplateReference } from "../../wire/address.ts";
import { foreignNamespace, malformedName } from "../../wire/messages.ts";
import { DEFAULT_TAG } from "../templates/built-ins.ts";
import { newTemplate } from "../templates/new-template.ts";
import { requireOwnTemplate, requireTagPlace } from "../templates/template-tags.ts";
import { forgetAbandoned } from "./abandoned-builds.ts";
import { createBuildLog } from "./build-log.ts";
import { checkPlan, requireFilesHash, type BuildPlan } from "./build-request.ts";
import { BUILD_LIMIT_MS, endBuild, type BuildsContext } from "./end-build.ts";
import { TEMPLATE_REMOVED } from "./open-building.ts";
import { requireLayerSpace, requireTemplatePlace } from "./team-limits.ts";

/** Requests of a team that wait for their steps, or for their turn. */
const MAX_OPEN_BUILDS = 100;
const MAX_TAGS = 100;
/** Ended builds of a template of which logs and reasons are kept, the newest. */
const MAX_ENDED_BUILDS = 50;
/**
 * The start of a build is answered when the build has ended, and after this time at the latest: one whose
 * steps are all cached takes some milliseconds, and official clients ask only every 200 ms whether it is ready.
 */
const SHORT_BUILD_MS = 100;

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
   * Begins a build that waits; builds for a tag of its own that run are cancelled. Resolves while the
   * build runs, or when it has ended if that is soon.
   * @throws SandboxError failed_precondition when it does not wait, as `files` otherwise.
   */
  start(template: string, buildId: string, plan: BuildPlan): Promise<void>;
  status(template: string, buildId: string, filter: BuildLineFilter): BuildStatus;
  lines(template: string, buildId: string, filter: BuildLineFilter): BuildLine[];
}

export function createTemplateBuilds(context: BuildsContext): TemplateBuilds {
  const { store, runner, team } = context;
  return {
    request: (wanted) => requestBuild(context, wanted),
    async files(reference, hash) {
      requireOwnTemplate(context, reference);
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
    forgetAbandoned(store, clock.now());
    const open = store.templateBuilds.open().filter((build) => build.team === team);
    if (open.length >= MAX_OPEN_BUILDS) {
      throw new SandboxError(
        "resource_exhausted",
        `a team has at most ${MAX_OPEN_BUILDS} builds that have not ended`,
        { retryAfterSeconds: 10 },
      );
    }
    const nowMs = clock.now();
    const name = `${team}/${alias}`;
    const known = store.templates.getByName(name);
    if (known === undefined) requireTemplatePlace(context);
    const template = known ?? newTemplate(team, name, nowMs);
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
    throw new SandboxError("invalid_argument", malformedName(name));
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

function requireBuild(context: BuildsContext, reference: string, buildId: string): TemplateBuild {
  const { templateId } = requireOwnTemplate(context, reference);
  const { store, runner } = context;
  const build = runner.unrecorded.get(buildId) ?? store.templateBuilds.get(buildId);
  if (build?.templateId === templateId) return build;
  throw new SandboxError("not_found", `Build ${buildId.slice(0, 64)} not found`);
}

async function startBuild(
  context: BuildsContext,
  { reference, buildId }: { readonly reference: string; readonly buildId: string },
  plan: BuildPlan,
): Promise<void> {
  const { store, clock, runner, owner } = context;
  requireBuild(context, reference, buildId);
  checkPlan(plan);
  await requireLayerSpace(context, runner.layerSizes);
  const template = requireOwnTemplate(context, reference);
  const record = store.transaction((): TemplateBuild => {
    // Its template may have been removed meanwhile, and another one have its name.
    const current = requireBuild(context, reference, buildId);
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
  const ended = runner.begin({
    buildId,
    templateId: template.templateId,
    team: context.team,
    tags: record.tags,
    limitMs: BUILD_LIMIT_MS,
    onWait() {
      try {
        log.note("base", "waiting for another build to end");
      } catch (error) {
        // It is on record as begun, and runs also where the line has no space.
        context.log.warn(
          { op: "template.build", buildId, err: error },
          "a line of a build is lost",
        );
      }
    },
    // `template remove` is a process of its own.
    findFault: () =>
      store.templates.get(template.templateId) === undefined ? TEMPLATE_REMOVED : undefined,
    async work(signal) {
      try {
        const facts = { record, template, plan, log, signal };
        await asOperation("template.build", () => endBuild(context, facts));
      } catch (error) {
        context.log.error({ op: "template.build", buildId, err: error }, "build left traces");
      }
    },
  });
  await waitAtMost(ended, SHORT_BUILD_MS);
}
