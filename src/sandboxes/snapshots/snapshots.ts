/** Snapshots: a sandbox's files as a template of their own, there whole or not at all. */

import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { BuildRecord, TemplateRecord } from "../../store/store.ts";
import { parseTemplateReference, randomId } from "../../wire/address.ts";
import {
  foreignNamespace,
  malformedName,
  sandboxCannotBe,
  sandboxMissing,
} from "../../wire/messages.ts";
import { writeBuild } from "../builds/builds.ts";
import { memoryOf, type CarriedMemory } from "../builds/memory.ts";
import type { SandboxContext, SandboxEntry, Services, Tenant, Folders } from "../context.ts";
import { requireKnownEntry } from "../find-entry.ts";
import {
  beginPage,
  lastPosition,
  paginate,
  type Page,
  type PageRequest,
  type Position,
} from "../paging.ts";
import { changeState } from "../registry.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { removeOldBuilds } from "../template-builds/old-builds.ts";
import { DEFAULT_TAG } from "../templates/built-ins.ts";
import { newTemplate } from "../templates/new-template.ts";
import { requireTagPlace } from "../templates/template-tags.ts";

export interface Snapshot {
  /** What `create` takes as a template. */
  readonly snapshotId: string;
  /** Full names with namespace, without a tag; none for an unnamed one. */
  readonly names: readonly string[];
}

/** One that was just taken. */
export interface NewSnapshot extends Snapshot {
  readonly memory: CarriedMemory;
}

export interface SnapshotQuery {
  readonly sandboxId: string | undefined;
  readonly name: string | undefined;
  readonly page: PageRequest & { readonly order: "desc" };
}

export interface SnapshotRequest {
  readonly name: string | undefined;
  /** False: files alone. */
  readonly keepsMemory?: boolean | undefined;
  /** Fires when no client waits for the snapshot any more: it is not kept then. */
  readonly signal?: AbortSignal | undefined;
}

interface SnapshotName {
  readonly alias: string | undefined;
  readonly tag: string;
}

/**
 * Takes a snapshot of a running sandbox, which goes on running; with the memory of its programs where
 * it can have that, and `keepsMemory` is set. Durable when it resolves.
 * @throws SandboxError invalid_argument for a bad name, not_found when unknown or paused,
 * failed_precondition during another change, canceled when the signal fired.
 */
export async function createSnapshot(
  context: SandboxContext,
  sandboxId: string,
  { name, keepsMemory = true, signal }: SnapshotRequest,
): Promise<NewSnapshot> {
  const parsed = parseSnapshotName(context.team, name);
  const entry = requireKnownEntry(context, sandboxId);
  if (entry.phase === "paused") {
    throw new SandboxError("not_found", sandboxMissing(sandboxId));
  }
  const state = entry.ending === undefined ? entry.phase : "killing";
  if (state !== "running") {
    throw new SandboxError("failed_precondition", sandboxCannotBe("snapshotted", sandboxId, state));
  }
  context.logBook.note(entry.record, "Checkpointing sandbox");
  const { promise, resolve } = Promise.withResolvers<NewSnapshot>();
  await changeState(context, { entry, during: "snapshotting" }, async () => {
    resolve(await take(context, entry, { ...parsed, keepsMemory, signal }));
    return "running";
  });
  await step("snapshot.committed");
  context.log.info({ op: "sandbox.snapshot", sandboxId, outcome: "ok" }, "sandbox.snapshot ok");
  await removeReplaced(context, parsed);
  return promise;
}

/** Without its tag one that another of the same name replaced is of no use to a client. */
async function removeReplaced(
  context: Services & Tenant & Folders,
  name: SnapshotName,
): Promise<void> {
  if (name.alias === undefined) return;
  await cleanUpOrRetry(context, `old builds of ${name.alias}`, async () => {
    const { templateId } = ownTemplate(context, name) ?? {};
    if (templateId !== undefined) removeOldBuilds(context, templateId);
  });
}

async function take(
  context: Services & Tenant & Folders,
  entry: SandboxEntry,
  name: SnapshotName & Pick<SnapshotRequest, "signal"> & { readonly keepsMemory: boolean },
): Promise<NewSnapshot> {
  const known = ownTemplate(context, name);
  // Before anything is copied, and again when it becomes known.
  if (known !== undefined) requireTagPlace(context, known.templateId, [name.tag]);
  return writeBuild(context, entry, {
    templateId: known?.templateId ?? randomId(),
    form: "disk",
    keepsMemory: name.keepsMemory,
    commit(build) {
      requireAwaited(name.signal);
      return { ...commit(context, build, name), memory: memoryOf(build) };
    },
  });
}

/** @throws SandboxError canceled when no client waits for the snapshot any more. */
export function requireAwaited(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new SandboxError("canceled", "snapshot was canceled");
}

/** Build, tag and template appear together. */
function commit(context: Services & Tenant, build: BuildRecord, name: SnapshotName): Snapshot {
  const { store, clock } = context;
  return store.transaction(() => {
    const nowMs = clock.now();
    // Another snapshot may have taken the name while this one was written.
    const known = ownTemplate(context, name);
    const fullName = name.alias === undefined ? null : `${context.team}/${name.alias}`;
    const template: TemplateRecord = known ?? {
      ...newTemplate(context.team, fullName, nowMs),
      templateId: build.templateId,
      kind: "snapshot",
    };
    const { templateId } = template;
    const { buildId } = build;
    requireTagPlace(context, templateId, [name.tag]);
    store.templates.put({ ...template, updatedAtMs: nowMs });
    store.builds.put({ ...build, templateId });
    store.builds.tag({ templateId, tag: name.tag, buildId, createdAtMs: nowMs });
    return toSnapshot(template, name.tag);
  });
}

function ownTemplate(context: Services & Tenant, name: SnapshotName): TemplateRecord | undefined {
  if (name.alias === undefined) return undefined;
  return context.store.templates.getByName(`${context.team}/${name.alias}`);
}

function toSnapshot(template: Pick<TemplateRecord, "templateId" | "name">, tag: string): Snapshot {
  if (template.name === null) return { snapshotId: `${template.templateId}:${tag}`, names: [] };
  return { snapshotId: `${template.name}:${tag}`, names: [template.name] };
}

/** @throws SandboxError invalid_argument for a malformed name, or one of another team. */
export function parseSnapshotName(team: string, name: string | undefined): SnapshotName {
  if (name === undefined) return { alias: undefined, tag: DEFAULT_TAG };
  const parsed = parseTemplateReference(name);
  if (parsed === undefined) {
    throw new SandboxError("invalid_argument", malformedName(name));
  }
  if (parsed.namespace !== undefined && parsed.namespace !== team) {
    throw new SandboxError("invalid_argument", foreignNamespace(parsed.namespace, team));
  }
  return { alias: parsed.alias, tag: parsed.tag ?? DEFAULT_TAG };
}

/**
 * Snapshots, newest first, one entry for each template: its newest build, or that of a named tag.
 * @throws SandboxError invalid_argument for a malformed name or token.
 */
export function listSnapshots(context: Services & Tenant, query: SnapshotQuery): Page<Snapshot> {
  const { sandboxId, page: request } = query;
  const page =
    query.name === undefined
      ? listAll(context, sandboxId, request)
      : paginate(listNamed(context, query.name, sandboxId), { positionOf }, request);
  return { ...page, items: page.items.map(({ snapshot }) => snapshot) };
}

interface SnapshotEntry {
  readonly templateId: string;
  readonly createdAtMs: number;
  readonly snapshot: Snapshot;
}

function positionOf({ createdAtMs, templateId }: SnapshotEntry): Position {
  return { atMs: createdAtMs, id: templateId };
}

/** One more than the page has tells whether another one follows. */
function listAll(
  { store, team }: Services & Tenant,
  sandboxId: string | undefined,
  request: PageRequest,
): Page<SnapshotEntry> {
  const after = lastPosition(request);
  const limit = request.limit + 1;
  const entries = store.snapshots
    .list({ team, sandboxId, limit, after })
    .map((listed) => ({ ...listed, snapshot: toSnapshot(listed, listed.tag) }));
  return beginPage(entries, { positionOf }, request);
}

/** At most two: an identifier may be the name of another one. */
function listNamed(
  context: Services & Tenant,
  name: string,
  sandboxId: string | undefined,
): SnapshotEntry[] {
  const { store, team } = context;
  const wanted = parseTemplateReference(name);
  if (wanted === undefined) {
    throw new SandboxError("invalid_argument", malformedName(name));
  }
  const { namespace, alias, tag } = wanted;
  const byId = namespace === undefined ? store.templates.get(alias) : undefined;
  const byName = store.templates.getByName(`${namespace ?? team}/${alias}`);
  const found = [byId, byName].flatMap((template) => template ?? []);
  return found
    .filter((template) => template.kind === "snapshot" && template.team === team)
    .flatMap((template) => newestEntry(context, template, tag))
    .filter(({ sources }) => sandboxId === undefined || sources.includes(sandboxId));
}

function newestEntry(context: Services, template: TemplateRecord, tag: string | undefined) {
  const { templateId } = template;
  const tags = context.store.builds
    .tags(templateId)
    .filter((candidate) => tag === undefined || candidate.tag === tag);
  const builds = context.store.builds.ofTemplate(templateId);
  const newest = builds.find(
    (build) =>
      build.status === "ready" && tags.some((candidate) => candidate.buildId === build.buildId),
  );
  const newestTag = tags.find((candidate) => candidate.buildId === newest?.buildId);
  if (newest === undefined || newestTag === undefined) return [];
  return [
    {
      templateId,
      createdAtMs: newest.createdAtMs,
      snapshot: toSnapshot(template, newestTag.tag),
      sources: builds.flatMap(({ sourceSandboxId }) => sourceSandboxId ?? []),
    },
  ];
}
