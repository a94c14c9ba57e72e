/** Snapshots and forks as a team asks for them, and templates with its snapshots among them. */

import type { Track } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import { paginate } from "../../sandboxes/paging.ts";
import type { TeamSandboxes } from "../../sandboxes/team-sandboxes.ts";
import { requireReference } from "../../sandboxes/templates/resolve-template.ts";
import type { Templates } from "../../sandboxes/templates/templates.ts";
import { sandboxCannotBe, tagMissing, templateInUse } from "../../wire/messages.ts";
import type { ClusterContext } from "../context.ts";
import { missingAbility } from "../missing-abilities.ts";
import type { KnownSandbox } from "../records.ts";
import { forkPod } from "./fork.ts";
import { changeSnapshot } from "./records.ts";
import { findUsed, removeSnapshot, restoreSnapshot, toRemoving } from "./remove.ts";
import {
  findTemplate,
  isUsed,
  listSnapshots,
  peekSnapshot,
  snapshotsOf,
  toFound,
  toSnapshot,
} from "./snapshots.ts";
import { takeSnapshot } from "./take.ts";

const NO_MEMORY = { isCarried: false, reason: "a Pod has no image of its memory" } as const;

interface Subject {
  readonly team: string;
  readonly track: Track;
  /** @throws SandboxError not_found for one that does not run, or of another team. */
  readonly requireSandbox: (sandboxId: string) => KnownSandbox;
}

export function snapshotOperations(
  context: ClusterContext,
  { team, track, requireSandbox }: Subject,
): Pick<TeamSandboxes, "templates" | "snapshot" | "fork" | "listSnapshots"> {
  /** One that is not there is reported first. */
  const requireFor = (sandboxId: string, ability: "snapshot" | "fork"): KnownSandbox => {
    const stored = requireSandbox(sandboxId);
    if (context.snapshots === undefined) throw missingAbility(ability);
    if (stored.record.state === "running" && stored.change === undefined) return stored;
    const verb = ability === "fork" ? "forked" : "snapshotted";
    const state = stored.record.state === "paused" ? "paused" : "pausing";
    throw new SandboxError("failed_precondition", sandboxCannotBe(verb, sandboxId, state));
  };
  return {
    templates:
      context.snapshots === undefined ? context.images.templates : templatesOf(context, team),
    async snapshot(sandboxId, name, { signal } = {}) {
      const stored = requireFor(sandboxId, "snapshot");
      const taking = takeSnapshot(context, { team, stored, kind: "snapshot", name, signal });
      return { ...toSnapshot(await track(taking)), memory: NO_MEMORY };
    },
    async fork(sandboxId, options) {
      const stored = requireFor(sandboxId, "fork");
      return track(forkPod(context, { team, stored }, options));
    },
    listSnapshots: (query) => listSnapshots(context, team, query),
  };
}

function templatesOf(context: ClusterContext, team: string): Templates {
  const { templates } = context.images;
  return {
    ...templates,
    resolve: async (reference) => (await findTemplate(context, team, reference)).resolved,
    peek: (reference) => {
      const [snapshot] = snapshotsOf(context, team, reference);
      if (snapshot === undefined) return templates.peek(reference);
      return toFound(snapshot, context.limits).resolved.template;
    },
    builds(template, page) {
      const known = snapshotsOf(context, team, template.templateId);
      if (known.length === 0) return templates.builds(template, page);
      return paginate(
        known.map((snapshot) => toFound(snapshot, context.limits).resolved.build),
        { positionOf: ({ createdAtMs, buildId }) => ({ atMs: createdAtMs, id: buildId }) },
        page,
      );
    },
    tags(reference) {
      if (peekSnapshot(context, team, reference) === undefined) return templates.tags(reference);
      return snapshotsOf(context, team, reference).map(
        ({ templateId, tag, buildId, createdAtMs }) => ({ templateId, tag, buildId, createdAtMs }),
      );
    },
    async remove(reference) {
      const known = snapshotsOf(context, team, reference);
      const [first] = known;
      if (first === undefined) return templates.remove(reference);
      const { tag } = requireReference(reference);
      if (tag !== undefined && known.every((snapshot) => snapshot.tag !== tag)) {
        throw new SandboxError("not_found", tagMissing(tag, reference));
      }
      const builds = known.map(({ buildId }) => buildId);
      if (builds.some((buildId) => isUsed(context, buildId))) throw inUse(first.templateId);
      await markAll(context, builds);
      // A sandbox that another front has just made may not be seen yet.
      const used = await findUsed(context, builds);
      if (used.length > 0) {
        for (const buildId of builds) await restoreSnapshot(context, buildId);
        throw inUse(first.templateId);
      }
      await removeAll(context, builds);
      return undefined;
    },
  };
}

function inUse(templateId: string): SandboxError {
  return new SandboxError("invalid_argument", templateInUse(templateId));
}

/** All are decided before the first image goes: from now on no create gets one. */
async function markAll(context: ClusterContext, builds: readonly string[]): Promise<void> {
  for (const buildId of builds) {
    const changes = toRemoving(context);
    const removing = await changeSnapshot(context.api, buildId, { changes, holds: () => true });
    if (removing !== undefined) context.snapshots?.apply(removing);
  }
}

/** What a registry refuses is done again later. */
async function removeAll(context: ClusterContext, builds: readonly string[]): Promise<void> {
  for (const buildId of builds) {
    try {
      await removeSnapshot(context, buildId);
    } catch (error) {
      context.log.warn({ op: "snapshot.remove", buildId, err: error }, "image was left");
      context.retry(`image ${buildId}`, async () => void (await removeSnapshot(context, buildId)));
    }
  }
}
