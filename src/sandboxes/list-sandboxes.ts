/** Lists and counts sandboxes; a list is filtered and in pages. */

import type { IsolationLevel } from "../engine/engine.ts";
import type { SandboxRecord } from "../store/store.ts";
import { findSizeFault, METADATA_BOUNDS } from "../wire/bounds.ts";
import { findMemoryFault } from "./builds/memory.ts";
import type { SandboxEntry, Services, Tenant, Registry, Limits } from "./context.ts";
import { paginate, type Page, type PageRequest } from "./paging.ts";
import { toSandbox, type Sandbox } from "./sandbox.ts";
import { unadoptedSandboxes } from "./unadopted.ts";

export interface ListQuery {
  readonly states: readonly Sandbox["state"][];
  /** Every pair must be there and equal. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Inclusive. */
  readonly startedAfterMs: number | undefined;
  readonly templateId: string | undefined;
  readonly page: PageRequest;
}

/** Of one that is not adopted yet its kernel is not known. */
export type ListedSandbox = Sandbox<IsolationLevel | undefined>;

export interface SandboxList extends Page<ListedSandbox> {
  /** Running ones that pass the filters, on any page. */
  readonly totalRunning: number;
}

/**
 * Only what is on the page is described, as that takes a hundred times as long as to choose it.
 * @throws SandboxError invalid_argument when the token of the page is not ours.
 */
export function listSandboxes(
  context: Services & Tenant & Registry,
  query: ListQuery,
): SandboxList {
  const present = [...context.entries.values()].filter(({ ending }) => ending === undefined);
  const left = unadoptedSandboxes(context).map(({ record }) => ({ record, phase: record.state }));
  const entries = [...present, ...left].filter(({ record }) => record.team === context.team);
  return listEntries(entries, query, (entry) =>
    "container" in entry
      ? describeEntry(context, entry)
      : toSandbox({ ...entry, container: { level: undefined } }, context.secrets),
  );
}

export interface ListedEntry {
  readonly record: SandboxRecord;
  readonly phase: SandboxEntry["phase"] | SandboxRecord["state"];
}

/** The page of a query, of entries that are all of one team. */
export function listEntries<Entry extends ListedEntry>(
  entries: readonly Entry[],
  query: ListQuery,
  describe: (entry: Entry) => ListedSandbox,
): SandboxList {
  const found = entries.filter((entry) => matches(entry, query));
  const page = paginate(
    found,
    {
      positionOf: ({ record }) => ({ atMs: record.startedAtMs, id: record.sandboxId }),
      weigh: ({ record }) => weightOf(record),
    },
    query.page,
  );
  const totalRunning = found.filter((entry) => stateOf(entry) === "running").length;
  const items = page.items.map((entry) => withListedMetadata(describe(entry)));
  return { ...page, items, totalRunning };
}

/** Of what every sandbox has in a list: identifiers, times and limits. */
const PLAIN_BYTES = 1_024;

/** How many bytes a list has for it. */
function weightOf({ metadata, volumeMounts }: SandboxRecord): number {
  const listed = metadata === null || !isListed(metadata) ? {} : metadata;
  return PLAIN_BYTES + Buffer.byteLength(JSON.stringify([listed, volumeMounts]));
}

/** A sandbox of an older home can have more metadata than a list may hold: only its detail has all of it. */
function withListedMetadata(sandbox: ListedSandbox): ListedSandbox {
  const { metadata } = sandbox;
  return metadata === undefined || isListed(metadata) ? sandbox : { ...sandbox, metadata: {} };
}

function isListed(metadata: Readonly<Record<string, string>>): boolean {
  return findSizeFault(Object.entries(metadata), METADATA_BOUNDS) === undefined;
}

function describeEntry(context: Services, entry: SandboxEntry): Sandbox {
  return { ...toSandbox(entry, context.secrets), ...entry.pausing, state: stateOf(entry) };
}

/** The same with what a sandbox of its kind cannot do. */
export function detailEntry(context: Services, entry: SandboxEntry): Sandbox {
  const sandbox = describeEntry(context, entry);
  const build = context.store.builds.get(entry.record.buildId);
  const canCarry = build !== undefined && findMemoryFault(entry, build, true) === undefined;
  return canCarry ? sandbox : { ...sandbox, missingAbilities: [LACKS_MEMORY] };
}

/** Why the memory on disk of a paused sandbox does not come back; undefined where that is not known. */
export async function findRestoreFault(
  { log }: Services,
  { container, record }: SandboxEntry,
): Promise<string | undefined> {
  if (!record.hasMemory || container.savedMemory === undefined) return undefined;
  try {
    return await container.findRestoreFault?.();
  } catch (error) {
    // The description of the sandbox is right without it.
    log.warn({ op: "sandbox.get", sandboxId: record.sandboxId, err: error }, "memory is not known");
    return undefined;
  }
}

/** Why, the reply of each snapshot tells. */
const LACKS_MEMORY = "memory in snapshots";

/** One that is being paused counts as paused. */
function stateOf({ phase, record }: ListedEntry): Sandbox["state"] {
  return phase === "pausing" || record.state === "paused" ? "paused" : "running";
}

function matches(entry: ListedEntry, query: ListQuery): boolean {
  const { startedAtMs, templateId, metadata } = entry.record;
  if (!query.states.includes(stateOf(entry))) return false;
  if (query.startedAfterMs !== undefined && startedAtMs < query.startedAfterMs) return false;
  if (query.templateId !== undefined && templateId !== query.templateId) return false;
  return [...query.metadata].every(
    ([key, value]) => metadata !== null && Object.hasOwn(metadata, key) && metadata[key] === value,
  );
}

export interface SandboxCount {
  readonly running: number;
  readonly paused: number;
  readonly starting: number;
}

/** Of all teams. */
export function countSandboxes({ entries, quota: places }: Registry & Limits): SandboxCount {
  const running = [...entries.values()].filter(({ run }) => run !== undefined).length;
  return { running, paused: entries.size - running, starting: places.starting };
}

/** Those that were started, paused ones included; a team without any is absent. */
export function countByTeam(
  entries: ReadonlyMap<string, SandboxEntry>,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { record } of entries.values()) {
    counts.set(record.team, (counts.get(record.team) ?? 0) + 1);
  }
  return counts;
}
