/** How much of the disk spools may take, and which are dropped when it is too much. */

import { statfs } from "node:fs/promises";
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

/** Asks for space for a new file; where there is too little, spools that ended are dropped. */
export type Quota = (place: SpoolLocation, bytes: number) => Promise<SpaceGrant>;

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
  /** Bytes granted since the last survey, by sandbox. */
  let granted = new Map<string, number>();

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
    entries = await survey();
    const { bavail, bsize } = await statfs(root);
    freeBytes = bavail * bsize;
    surveyedAt = performance.now();
    surveyMs = surveyedAt - startedAt;
  }

  async function surveyOlderThan(ms: number): Promise<boolean> {
    if (performance.now() - surveyedAt < ms) return false;
    await renew();
    return true;
  }

  function usedBy(sandboxId: string | undefined): number {
    const matches = (id: string) => sandboxId === undefined || id === sandboxId;
    const found = entries.filter(({ place }) => matches(place.sandboxId));
    const more = [...granted].filter(([id]) => matches(id));
    const bytes = found.reduce((sum, entry) => sum + entry.bytes, 0);
    return more.reduce((sum, [, grant]) => sum + grant, bytes);
  }

  async function drop(entry: Entry): Promise<void> {
    entries = entries.filter((other) => other !== entry);
    await removeTree(entry.place.folder);
  }

  /** Drops spools that ended, oldest first, until the limit holds; returns whether it does. */
  async function squeeze(sandboxId: string | undefined, maxBytes: number): Promise<boolean> {
    const ended = entries
      .filter(({ place }) => sandboxId === undefined || place.sandboxId === sandboxId)
      .filter(({ endedAtMs }) => endedAtMs !== undefined)
      .toSorted((left, right) => left.changedAtMs - right.changedAtMs);
    for (const entry of ended) {
      if (usedBy(sandboxId) <= maxBytes) return true;
      await drop(entry);
    }
    return usedBy(sandboxId) <= maxBytes;
  }

  return async ({ sandboxId }, bytes) => {
    await surveyOlderThan(SURVEY_MS);
    if (freeBytes - usedSince(granted) < MIN_FREE_BYTES) return "none";
    const fits = async () =>
      (await squeeze(sandboxId, limits.sandboxBytes - bytes)) &&
      (await squeeze(undefined, limits.homeBytes - bytes));
    // Spools that ended since the last survey can be dropped now.
    const isFree =
      (await fits()) || ((await surveyOlderThan(surveyMs / SURVEY_SHARE)) && (await fits()));
    if (isFree) granted.set(sandboxId, (granted.get(sandboxId) ?? 0) + bytes);
    return isFree ? "free" : "tight";
  };
}

function usedSince(granted: ReadonlyMap<string, number>): number {
  return [...granted.values()].reduce((sum, bytes) => sum + bytes, 0);
}
