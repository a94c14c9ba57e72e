/** How much of the disk spools may take, and which are dropped when it is too much. */

import { statfs } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { removeTree } from "../common/remove-tree.ts";
import type { Entry, SpoolLocation } from "./folders.ts";
import type { SpaceGrant } from "./writer-files.ts";

/** All spools of one sandbox together. */
export const MAX_SANDBOX_BYTES = 256 * 1024 * 1024;
/** All spools of one home together. */
export const MAX_HOME_BYTES = 1024 * 1024 * 1024;
/** With less free on the disk nothing is written. */
const MIN_FREE_BYTES = 1024 ** 3;
/** A survey reads the size of every file that is written; this is the shortest time between two. */
const SURVEY_MS = 2_000;
/** The share of the time that surveys may take while space is short. */
const SURVEY_SHARE = 0.1;

export interface QuotaLimits {
  readonly sandboxBytes: number;
  readonly homeBytes: number;
}

export interface Quota {
  /** Asks for space for a new file; where there is too little, spools that ended are dropped. */
  requestSpace(place: SpoolLocation, bytes: number): Promise<SpaceGrant>;
  /** So much was written to a file. */
  noteWritten(place: SpoolLocation, bytes: number): void;
}

/** A quota over the folder of all spools. */
export function createQuota(
  root: string,
  survey: () => Promise<Entry[]>,
  limits: QuotaLimits,
): Quota {
  let entries: Entry[] = [];
  let freeBytes = Number.POSITIVE_INFINITY;
  let surveyedAt = Number.NEGATIVE_INFINITY;
  let surveyMs = 0;
  /** Bytes granted since the last survey, by sandbox; most outputs are short, and take few of them. */
  let granted = new Map<string, number>();
  /** Those that were written since then. */
  let written = new Map<string, number>();

  let surveying: Promise<void> | undefined;

  function renew(): Promise<void> {
    surveying ??= surveyNow().finally(() => {
      surveying = undefined;
    });
    return surveying;
  }

  async function surveyNow(): Promise<void> {
    const startedAt = performance.now();
    granted = new Map();
    written = new Map();
    entries = await survey();
    const { bavail, bsize } = await statfs(root);
    freeBytes = bavail * bsize;
    surveyedAt = performance.now();
    surveyMs = surveyedAt - startedAt;
  }

  async function surveyOlderThan(ms: number): Promise<void> {
    if (performance.now() - surveyedAt >= ms) await renew();
  }

  /** Output is lost for lack of space: it waits until what was granted and not written is known. */
  async function surveyAsSoonAsAllowed(): Promise<void> {
    const lastMs = surveyedAt;
    const restMs = lastMs + Math.min(surveyMs / SURVEY_SHARE, SURVEY_MS) - performance.now();
    await delay(Math.max(0, restMs));
    if (surveyedAt === lastMs) await renew();
  }

  /** By the last survey, and what came since then. */
  const usedBy = (sandboxId: string | undefined, since: ReadonlyMap<string, number>) =>
    bytesOf({ entries, since }, sandboxId);

  /** Drops spools that ended, oldest first, until what is written is within the limit. */
  async function squeeze(sandboxId: string | undefined, maxBytes: number): Promise<void> {
    const ended = entries
      .filter(({ place }) => sandboxId === undefined || place.sandboxId === sandboxId)
      .filter(({ endedAtMs }) => endedAtMs !== undefined)
      .toSorted((left, right) => left.changedAtMs - right.changedAtMs);
    for (const entry of ended) {
      if (usedBy(sandboxId, written) <= maxBytes) return;
      entries = entries.filter((other) => other !== entry);
      await removeTree(entry.place.folder);
    }
  }

  async function requestSpace({ sandboxId }: SpoolLocation, bytes: number): Promise<SpaceGrant> {
    await surveyOlderThan(SURVEY_MS);
    const hasSpace = () => freeBytes - sumOf(granted) >= MIN_FREE_BYTES;
    if (freeBytes >= MIN_FREE_BYTES && !hasSpace()) await surveyAsSoonAsAllowed();
    if (!hasSpace()) return "none";
    const bounds = boundsOf(sandboxId, limits, bytes);
    const isWithin = (since: ReadonlyMap<string, number>) =>
      bounds.every(([id, maxBytes]) => usedBy(id, since) <= maxBytes);
    const isFree = () => isWithin(granted);
    if (!isFree()) {
      // It counts what was written of what was granted, and spools that ended since the last one.
      await surveyOlderThan(surveyMs / SURVEY_SHARE);
      for (const [id, maxBytes] of bounds) await squeeze(id, maxBytes);
      // Else a long output would lose its oldest file to what many short ones do not write.
      if (!isFree() && isWithin(written)) await surveyAsSoonAsAllowed();
      if (!isFree()) return "tight";
    }
    add(granted, sandboxId, bytes);
    return "free";
  }

  return { requestSpace, noteWritten: ({ sandboxId }, bytes) => add(written, sandboxId, bytes) };
}

/** How much there may be of the sandbox, and of all, before so many bytes more. */
function boundsOf(sandboxId: string, { sandboxBytes, homeBytes }: QuotaLimits, bytes: number) {
  return [
    [sandboxId, sandboxBytes - bytes],
    [undefined, homeBytes - bytes],
  ] as const;
}

function bytesOf(
  {
    entries,
    since,
  }: { readonly entries: readonly Entry[]; readonly since: ReadonlyMap<string, number> },
  sandboxId: string | undefined,
): number {
  const matches = (id: string) => sandboxId === undefined || id === sandboxId;
  const found = entries.filter(({ place }) => matches(place.sandboxId));
  const more = [...since].filter(([id]) => matches(id));
  const bytes = found.reduce((sum, entry) => sum + entry.bytes, 0);
  return more.reduce((sum, [, amount]) => sum + amount, bytes);
}

function add(amounts: Map<string, number>, sandboxId: string, bytes: number): void {
  amounts.set(sandboxId, (amounts.get(sandboxId) ?? 0) + bytes);
}

function sumOf(amounts: ReadonlyMap<string, number>): number {
  return [...amounts.values()].reduce((sum, bytes) => sum + bytes, 0);
}
