/** Snapshots: a sandbox's files as a template of their own, there whole or not at all. */

import { SandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { BuildRecord, TemplateRecord } from "../store/store.ts";
import { parseTemplateReference, randomId } from "../wire/address.ts";
import { foreignNamespace, sandboxCannotBe, sandboxMissing } from "../wire/messages.ts";
import { DEFAULT_TAG } from "./built-ins.ts";
import { changeState, findMember, type Domain, type Member } from "./domain.ts";
import { paginate, type Page, type PageRequest } from "./paging.ts";
import { requireTagPlace } from "./template-tags.ts";
import { writeBuild } from "./write-build.ts";

export interface Snapshot {
  /** What `create` takes as a template. */
  readonly snapshotId: string;
  /** Full names with namespace and tag; none for an unnamed one. */
  readonly names: readonly string[];
}

export interface SnapshotQuery {
  readonly sandboxId: string | undefined;
  readonly name: string | undefined;
  readonly page: PageRequest;
}

interface SnapshotName {
  readonly alias: string | undefined;
  readonly tag: string;
}

/**
 * Takes a snapshot of a running sandbox, which goes on running. Durable when it resolves.
 * @throws SandboxError invalid_argument for a bad name, not_found when unknown or paused,
 * failed_precondition during another change.
 */
export async function createSnapshot(
  domain: Domain,
  sandboxId: string,
  name: string | undefined,
): Promise<Snapshot> {
  const parsed = parseName(domain, name);
  const member = findMember(domain, sandboxId);
  if (member === undefined || member.phase === "paused") {
    throw new SandboxError("not_found", sandboxMissing(sandboxId));
  }
  const state = member.ending === undefined ? member.phase : "killing";
  if (state !== "running") {
    throw new SandboxError("failed_precondition", sandboxCannotBe("snapshotted", sandboxId, state));
  }
  domain.logBook.note(member.record, "Checkpointing sandbox");
  const { promise, resolve } = Promise.withResolvers<Snapshot>();
  await changeState(member, "snapshotting", async () => {
    resolve(await take(domain, member, parsed));
    return "running";
  });
  await step("snapshot.committed");
  domain.noteExpiry();
  domain.log.info({ op: "sandbox.snapshot", sandboxId, outcome: "ok" }, "sandbox.snapshot ok");
  return promise;
}

async function take(domain: Domain, member: Member, name: SnapshotName): Promise<Snapshot> {
  const known = ownTemplate(domain, name);
  // Before anything is copied, and again when it becomes known.
  if (known !== undefined) requireTagPlace(domain, known.templateId, [name.tag]);
  return writeBuild(domain, member, {
    templateId: known?.templateId ?? randomId(),
    commit: (build) => commit(domain, build, name),
  });
}

/** Build, tag and template appear together. */
function commit(domain: Domain, build: BuildRecord, name: SnapshotName): Snapshot {
  const { store, clock } = domain;
  return store.transaction(() => {
    const nowMs = clock.now();
    // Another snapshot may have taken the name while this one was written.
    const known = ownTemplate(domain, name);
    const template: TemplateRecord = known ?? {
      templateId: build.templateId,
      kind: "snapshot",
      team: domain.team,
      name: name.alias === undefined ? null : `${domain.team}/${name.alias}`,
      isPublic: false,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
      lastSpawnedAtMs: null,
      spawnCount: 0,
    };
    const { templateId } = template;
    const { buildId } = build;
    requireTagPlace(domain, templateId, [name.tag]);
    store.templates.put({ ...template, updatedAtMs: nowMs });
    store.builds.put({ ...build, templateId });
    store.builds.tag({ templateId, tag: name.tag, buildId, createdAtMs: nowMs });
    return toSnapshot(template, name.tag);
  });
}

function ownTemplate(domain: Domain, name: SnapshotName): TemplateRecord | undefined {
  if (name.alias === undefined) return undefined;
  return domain.store.templates.getByName(`${domain.team}/${name.alias}`);
}

function toSnapshot(template: TemplateRecord, tag: string): Snapshot {
  if (template.name === null) return { snapshotId: `${template.templateId}:${tag}`, names: [] };
  const snapshotId = `${template.name}:${tag}`;
  return { snapshotId, names: [snapshotId] };
}

function parseName({ team }: Domain, name: string | undefined): SnapshotName {
  if (name === undefined) return { alias: undefined, tag: DEFAULT_TAG };
  const parsed = parseTemplateReference(name);
  if (parsed === undefined) {
    throw new SandboxError("invalid_argument", `Invalid name: ${name.slice(0, 200)}`);
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
export function listSnapshots(domain: Domain, query: SnapshotQuery): Page<Snapshot> {
  const wanted = query.name === undefined ? undefined : parseTemplateReference(query.name);
  if (query.name !== undefined && wanted === undefined) {
    throw new SandboxError("invalid_argument", `Invalid name: ${query.name.slice(0, 200)}`);
  }
  const entries = domain.store.templates
    .all()
    .filter((template) => template.kind === "snapshot" && template.team === domain.team)
    .filter((template) => wanted === undefined || isNamed(template, wanted))
    .flatMap((template) => newestEntry(domain, template, wanted?.tag))
    .filter(({ sources }) => query.sandboxId === undefined || sources.includes(query.sandboxId));
  const page = paginate(
    entries,
    { positionOf: ({ createdAtMs, templateId }) => ({ atMs: createdAtMs, id: templateId }) },
    query.page,
  );
  return { ...page, items: page.items.map(({ snapshot }) => snapshot) };
}

function isNamed(
  template: TemplateRecord,
  { namespace, alias }: { readonly namespace?: string; readonly alias: string },
): boolean {
  if (namespace === undefined && template.templateId === alias) return true;
  return template.name === `${namespace ?? template.team}/${alias}`;
}

function newestEntry(domain: Domain, template: TemplateRecord, tag: string | undefined) {
  const { templateId } = template;
  const tags = domain.store.builds
    .tags(templateId)
    .filter((candidate) => tag === undefined || candidate.tag === tag);
  const builds = domain.store.builds.ofTemplate(templateId);
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
