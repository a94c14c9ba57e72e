/** What snapshots there are: which one a reference means, their list, and whether a sandbox stands on one. */

import { SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import type { ContainerLimits } from "../../engine/engine.ts";
import { paginate, type Page } from "../../sandboxes/paging.ts";
import type { Snapshot, SnapshotQuery } from "../../sandboxes/snapshots/snapshots.ts";
import { DEFAULT_TAG } from "../../sandboxes/templates/built-ins.ts";
import {
  requireReference,
  type ResolvedTemplate,
} from "../../sandboxes/templates/resolve-template.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { parseTemplateReference, type TemplateReference } from "../../wire/address.ts";
import { malformedName, tagMissing, templateMissing } from "../../wire/messages.ts";
import type { ClusterApi } from "../api/api.ts";
import { listObjects } from "../api/list-pages.ts";
import { MANAGED, MANAGER } from "../api/objects.ts";
import { startWatchCache, type WatchCache } from "../api/watch-cache.ts";
import type { ClusterContext } from "../context.ts";
import type { FoundTemplate } from "../image-templates.ts";
import { usesImage } from "../records.ts";
import {
  isKnownSnapshot,
  namedTemplateId,
  readSnapshot,
  SNAPSHOT_SELECTOR,
  storedSnapshotSchema,
  TEMPLATE,
  type SnapshotRecord,
  type StoredSnapshot,
} from "./records.ts";

type Known = Pick<ClusterContext, "snapshots" | "records" | "limits" | "images" | "api">;

const LABEL = /^[a-z0-9](?:[a-z0-9_.-]{0,61}[a-z0-9])?$/i;

/**
 * What a new sandbox starts from: an own snapshot, or an image of the configuration. One that another
 * front has just made is looked for in the cluster.
 * @throws SandboxError invalid_argument when malformed, not_found.
 */
export async function findTemplate(
  context: Known,
  team: string,
  reference: string,
): Promise<FoundTemplate> {
  if (context.snapshots === undefined) return context.images.find(reference);
  const known = peekSnapshot(context, team, reference) ?? peekImage(context, reference);
  if (known !== undefined) return known;
  await readTemplate(context, team, requireReference(reference));
  return peekSnapshot(context, team, reference) ?? context.images.find(reference);
}

function peekImage({ images }: Known, reference: string): FoundTemplate | undefined {
  return images.templates.peek(reference) && images.find(reference);
}

/** Undefined when no snapshot is meant. @throws SandboxError not_found for an unknown tag of one. */
export function peekSnapshot(
  context: Known,
  team: string,
  reference: string,
): FoundTemplate | undefined {
  const parsed = requireReference(reference);
  const builds = newestFirst(readyOf(context, team)).filter((snapshot) =>
    isNamed(snapshot, parsed),
  );
  if (builds.length === 0) return undefined;
  const tag = parsed.tag ?? DEFAULT_TAG;
  const found = builds.find((snapshot) => snapshot.tag === tag);
  if (found === undefined) throw new SandboxError("not_found", tagMissing(tag, reference));
  return toFound(found, context.limits);
}

/** The snapshots of a template, whatever their tag; none for what is no snapshot. */
export function snapshotsOf(context: Known, team: string, reference: string): SnapshotRecord[] {
  const parsed = requireReference(reference);
  return readyOf(context, team).filter((snapshot) => isNamed(snapshot, parsed));
}

/** What the daemon of a sandbox is told of its image. */
export function buildOf(
  context: Pick<Known, "snapshots" | "limits" | "images">,
  record: Pick<SandboxRecord, "buildId" | "templateId">,
): ResolvedTemplate["build"] {
  for (const { snapshot } of context.snapshots?.items.values() ?? []) {
    if (snapshot?.buildId === record.buildId)
      return toFound(snapshot, context.limits).resolved.build;
  }
  return context.images.find(record.templateId).resolved.build;
}

/** As `recordIntent` on one machine: a snapshot that was removed since it was found is missed here. */
export async function requireSnapshot(
  api: ClusterApi,
  { template, build }: ResolvedTemplate,
): Promise<void> {
  if (template.kind !== "snapshot") return;
  const stored = await readSnapshot(api, build.buildId);
  if (isKnownSnapshot(stored) && stored.snapshot.state === "ready") return;
  throw new SandboxError("invalid_argument", templateMissing(template.templateId));
}

export function isUsed({ records }: Pick<Known, "records">, buildId: string): boolean {
  return [...records.items.values()].some((stored) => usesImage(stored, buildId));
}

/** Newest first, one entry for each template: its newest snapshot, or that of a named tag. */
export function listSnapshots(context: Known, team: string, query: SnapshotQuery): Page<Snapshot> {
  const wanted = query.name === undefined ? undefined : parseTemplateReference(query.name);
  if (query.name !== undefined && wanted === undefined) {
    throw new SandboxError("invalid_argument", malformedName(query.name));
  }
  const ready = readyOf(context, team).filter(
    (snapshot) => wanted === undefined || isNamed(snapshot, wanted),
  );
  const newest = new Map<string, SnapshotRecord>();
  for (const snapshot of newestFirst(ready)) {
    const isTagged = wanted?.tag === undefined || snapshot.tag === wanted.tag;
    if (isTagged && !newest.has(snapshot.templateId)) newest.set(snapshot.templateId, snapshot);
  }
  const isSource = ({ templateId }: SnapshotRecord) =>
    query.sandboxId === undefined ||
    ready.some((one) => one.templateId === templateId && one.sourceSandboxId === query.sandboxId);
  const page = paginate(
    [...newest.values()].filter((snapshot) => isSource(snapshot)),
    { positionOf: ({ createdAtMs, templateId }) => ({ atMs: createdAtMs, id: templateId }) },
    query.page,
  );
  return { ...page, items: page.items.map((snapshot) => toSnapshot(snapshot)) };
}

export function toSnapshot({ team, alias, templateId, tag }: SnapshotRecord): Snapshot {
  if (alias === null) return { snapshotId: `${templateId}:${tag}`, names: [] };
  const name = `${team}/${alias}`;
  return { snapshotId: `${name}:${tag}`, names: [name] };
}

/** Ready ones behind a newer one of the same tag: no reference means them any more. */
export function superseded(snapshots: readonly SnapshotRecord[]): SnapshotRecord[] {
  const named = snapshots.filter(({ kind, state }) => kind === "snapshot" && state === "ready");
  const seen = new Set<string>();
  return newestFirst(named).filter(({ templateId, tag }) => {
    const isSeen = seen.has(`${templateId}:${tag}`);
    seen.add(`${templateId}:${tag}`);
    return isSeen;
  });
}

/** Of one that is taken now. Clocks of fronts may differ: it is later than all others of its template. */
export function newestTime(
  { snapshots, clock }: Pick<ClusterContext, "snapshots" | "clock">,
  templateId: string,
): number {
  let nowMs = clock.now();
  for (const { snapshot } of snapshots?.items.values() ?? []) {
    if (snapshot?.templateId === templateId) nowMs = Math.max(nowMs, snapshot.createdAtMs + 1);
  }
  return nowMs;
}

export function toFound(snapshot: SnapshotRecord, limits: ContainerLimits): FoundTemplate {
  const { templateId, buildId, team, alias, createdAtMs, owner } = snapshot;
  const times = { createdAtMs, updatedAtMs: createdAtMs };
  return {
    image: snapshot.image,
    resolved: {
      template: {
        ...times,
        templateId,
        kind: "snapshot",
        team,
        name: alias === null ? null : `${team}/${alias}`,
        isPublic: false,
        lastSpawnedAtMs: null,
        spawnCount: 0,
      },
      build: {
        ...times,
        buildId,
        templateId,
        owner,
        status: "ready",
        sourceSandboxId: snapshot.sourceSandboxId,
        finishedAtMs: createdAtMs,
        limits,
        layers: [],
        defaultUser: snapshot.defaultUser,
        defaultWorkdir: snapshot.defaultWorkdir,
      },
    },
  };
}

/** The snapshots of every team. */
export function watchSnapshots(api: ClusterApi, log: Logger): WatchCache<StoredSnapshot> {
  const selector = SNAPSHOT_SELECTOR;
  return startWatchCache({ api, log, kind: "configmaps", selector, schema: storedSnapshotSchema });
}

function readyOf({ snapshots }: Known, team: string): SnapshotRecord[] {
  return [...(snapshots?.items.values() ?? [])].flatMap(({ snapshot }) =>
    snapshot?.state === "ready" && snapshot.kind === "snapshot" && snapshot.team === team
      ? [snapshot]
      : [],
  );
}

function newestFirst(snapshots: readonly SnapshotRecord[]): SnapshotRecord[] {
  return snapshots.toSorted(
    (left, right) =>
      right.createdAtMs - left.createdAtMs || (left.buildId < right.buildId ? 1 : -1),
  );
}

function isNamed(
  { team, alias, templateId }: SnapshotRecord,
  { namespace, alias: wanted }: Pick<TemplateReference, "namespace" | "alias">,
): boolean {
  if (namespace === undefined && templateId === wanted) return true;
  return alias === wanted && (namespace === undefined || namespace === team);
}

async function readTemplate(
  { api, snapshots }: Known,
  team: string,
  { alias }: TemplateReference,
): Promise<void> {
  const ids = [namedTemplateId(team, alias), ...(LABEL.test(alias) ? [alias] : [])];
  const selector = `${MANAGED}=${MANAGER},${TEMPLATE} in (${ids.join(",")})`;
  const { items } = await listObjects(api, { kind: "configmaps", selector });
  for (const item of items) snapshots?.apply(storedSnapshotSchema.parse(item));
}
