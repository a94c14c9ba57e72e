/** How much all spools may take of the disk, and who goes first when it is too much. */

import { statfs } from "node:fs/promises";
import { removeTree } from "../common/remove-tree.ts";
import type { SpoolLocation } from "./folders.ts";
import { listEntries, type Entry } from "./survey.ts";
import type { Room } from "./writer.ts";

/** All spools of one sandbox together. */
export const MAX_SANDBOX_BYTES = 256 * 1024 * 1024;
/** All spools of one home together. */
export const MAX_HOME_BYTES = 1024 * 1024 * 1024;
/** With less than this free on the disk nothing is written any more. */
const MIN_FREE_BYTES = 1024 ** 3;
/** Looking at every file costs time, so it is done at most so often. */
const SURVEY_MS = 2_000;
/** Where it is too much a look may take this share of the time, whatever it costs. */
const SURVEY_SHARE = 0.1;

export interface QuotaLimits {
  readonly sandboxBytes: number;
  readonly homeBytes: number;
}

export interface Quota {
  /** Room for a new file, which is made by dropping what ended where that is needed. */
  room(place: SpoolLocation, bytes: number): Promise<Room>;
}

/** A quota over the folder of all spools. */
export function createQuota(options: {
  readonly root: string;
  readonly limits: QuotaLimits;
}): Quota {
  const { root, limits } = options;
  let entries: Entry[] = [];
  let freeBytes = Number.POSITIVE_INFINITY;
  let surveyedAt = Number.NEGATIVE_INFINITY;
  let surveyMs = 0;
  /** What was granted since the last survey. */
  let granted = new Map<string, number>();

  let surveying: Promise<void> | undefined;

  function survey(): Promise<void> {
    surveying ??= surveyNow().finally(() => {
      surveying = undefined;
    });
    return surveying;
  }

  async function surveyNow(): Promise<void> {
    const startedAt = performance.now();
    granted = new Map();
    entries = await listEntries(root);
    const { bavail, bsize } = await statfs(root);
    freeBytes = bavail * bsize;
    surveyedAt = performance.now();
    surveyMs = surveyedAt - startedAt;
  }

  async function surveyOlderThan(ms: number): Promise<boolean> {
    if (performance.now() - surveyedAt < ms) return false;
    await survey();
    return true;
  }

  function usedBy(sandboxId: string | undefined): number {
    const isMeant = (id: string) => sandboxId === undefined || id === sandboxId;
    const found = entries.filter(({ place }) => isMeant(place.sandboxId));
    const more = [...granted].filter(([id]) => isMeant(id));
    const bytes = found.reduce((sum, entry) => sum + entry.bytes, 0);
    return more.reduce((sum, [, grant]) => sum + grant, bytes);
  }

  async function drop(entry: Entry): Promise<void> {
    entries = entries.filter((other) => other !== entry);
    await removeTree(entry.place.folder);
  }

  /** Drops what ended, oldest first, until it is not too much; says whether that was enough. */
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

  return {
    async room({ sandboxId }, bytes) {
      await surveyOlderThan(SURVEY_MS);
      if (freeBytes - usedSince(granted) < MIN_FREE_BYTES) return "none";
      const fits = async () =>
        (await squeeze(sandboxId, limits.sandboxBytes - bytes)) &&
        (await squeeze(undefined, limits.homeBytes - bytes));
      // What ended since the last look may go now.
      const isFree =
        (await fits()) || ((await surveyOlderThan(surveyMs / SURVEY_SHARE)) && (await fits()));
      if (isFree) granted.set(sandboxId, (granted.get(sandboxId) ?? 0) + bytes);
      return isFree ? "free" : "tight";
    },
  };
}

function usedSince(granted: ReadonlyMap<string, number>): number {
  return [...granted.values()].reduce((sum, bytes) => sum + bytes, 0);
}
