/** Lists the sandboxes of a team, filtered and in pages. */

import type { SandboxRecord } from "../store/store.ts";
import { findSizeFault, METADATA_BOUNDS } from "../wire/bounds.ts";
import type { Domain, Member } from "./domain.ts";
import { paginate, type Page, type PageRequest } from "./paging.ts";
import { toSandbox, type Sandbox } from "./sandbox.ts";

export interface ListQuery {
  readonly states: readonly Sandbox["state"][];
  /** Every pair must be there and equal. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Inclusive. */
  readonly startedAfterMs: number | undefined;
  readonly templateId: string | undefined;
  readonly page: PageRequest;
}

export interface SandboxList extends Page<Sandbox> {
  /** Running ones that pass the filters, on any page. */
  readonly totalRunning: number;
}

/**
 * Only what is on the page is described, as that takes a hundred times as long as to choose it.
 * @throws SandboxError invalid_argument when the token of the page is not ours.
 */
export function listSandboxes(domain: Domain, query: ListQuery): SandboxList {
  const found = [...domain.members.values()].filter(
    (member) =>
      member.ending === undefined && member.record.team === domain.team && matches(member, query),
  );
  const page = paginate(
    found,
    {
      positionOf: ({ record }) => ({ atMs: record.startedAtMs, id: record.sandboxId }),
      weigh: ({ record }) => weightOf(record),
    },
    query.page,
  );
  const totalRunning = found.filter((member) => stateOf(member) === "running").length;
  const items = page.items.map((member) => withListedMetadata(describeMember(domain, member)));
  return { ...page, items, totalRunning };
}

/** Of what every sandbox has in a list: identifiers, times and limits. */
const PLAIN_BYTES = 1_024;

/** How many bytes a list has for it. */
function weightOf({ metadata, volumeMounts }: SandboxRecord): number {
  const listed = metadata === null || !isListed(metadata) ? {} : metadata;
  return PLAIN_BYTES + Buffer.byteLength(JSON.stringify([listed, volumeMounts]));
}

/** A sandbox of an older home can have more metadata than a list has room for: its detail tells it. */
function withListedMetadata(sandbox: Sandbox): Sandbox {
  const { metadata } = sandbox;
  return metadata === undefined || isListed(metadata) ? sandbox : { ...sandbox, metadata: {} };
}

function isListed(metadata: Readonly<Record<string, string>>): boolean {
  return findSizeFault(Object.entries(metadata), METADATA_BOUNDS) === undefined;
}

/** What is told of a member. */
export function describeMember(domain: Domain, member: Member): Sandbox {
  return { ...toSandbox(member, domain.secrets), state: stateOf(member) };
}

/** One that is being paused counts as paused. */
function stateOf({ phase, record }: Member): Sandbox["state"] {
  return phase === "pausing" || record.state === "paused" ? "paused" : "running";
}

function matches(member: Member, query: ListQuery): boolean {
  const { startedAtMs, templateId, metadata } = member.record;
  if (!query.states.includes(stateOf(member))) return false;
  if (query.startedAfterMs !== undefined && startedAtMs < query.startedAfterMs) return false;
  if (query.templateId !== undefined && templateId !== query.templateId) return false;
  return [...query.metadata].every(
    ([key, value]) => metadata !== null && Object.hasOwn(metadata, key) && metadata[key] === value,
  );
}
