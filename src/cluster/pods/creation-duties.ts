/**
 * What the leading front does about the keys of creates: those whose front died are settled by what
 * became of their sandbox, and those that are too old or too many are removed.
 */

import { KEPT_MS, MAX_KEPT } from "../../sandboxes/creation-record.ts";
import type { ClusterContext } from "../context.ts";
import type { Duty } from "../duty-works.ts";
import type { Observations } from "../observations.ts";
import { readRecord } from "../records.ts";
import { changeCreation, madeAtMs, removeCreation, type KnownCreation } from "./creations.ts";

/** A front whose Lease is seen late is not taken for dead. */
const OWNER_GRACE_MS = 5_000;
/**
 * Longer than any create. The record of a key may come into being after its front has given up the
 * request that made it, and has found nothing to remove.
 */
const MAX_CREATE_MS = 300_000;

interface DutyContext extends Pick<ClusterContext, "api" | "clock"> {
  readonly creations: Pick<ClusterContext["creations"], "items">;
  readonly fronts: Pick<ClusterContext["fronts"], "isAlive">;
}

/** What is to be done now. */
export function creationDuties(context: DutyContext, since: Pick<Observations, "lasts">): Duty[] {
  const { api, clock, creations, fronts } = context;
  const works: Duty[] = [];
  const kept = new Map<string, KnownCreation[]>();
  for (const stored of creations.items.values()) {
    const { metadata, creation } = stored;
    if (creation === undefined) continue;
    if (creation.isKept) {
      const ofTeam = kept.get(creation.team) ?? [];
      ofTeam.push({ metadata, creation });
      kept.set(creation.team, ofTeam);
    } else if (isLeft(metadata.uid, fronts.isAlive(creation.owner), since)) {
      works.push({ name: metadata.uid, run: () => settle(context, { metadata, creation }) });
    }
  }
  const nowMs = clock.now();
  for (const ofTeam of kept.values()) {
    for (const stored of outdated(ofTeam, { nowMs, since })) {
      works.push({ name: stored.metadata.uid, run: () => removeCreation(api, stored) });
    }
  }
  return works;
}

/** Whether no front will finish its create. */
function isLeft(uid: string, isOwnerAlive: boolean, since: Pick<Observations, "lasts">): boolean {
  if (since.lasts(`creation ${uid}`, MAX_CREATE_MS)) return true;
  return !isOwnerAlive && since.lasts(`creation of a dead front ${uid}`, OWNER_GRACE_MS);
}

interface Look {
  readonly nowMs: number;
  readonly since: Pick<Observations, "lasts">;
}

/** Those that are too old, and the oldest ones beyond the most that are kept. */
function outdated(kept: readonly KnownCreation[], look: Look): KnownCreation[] {
  const newestFirst = kept.toSorted((left, right) => madeAtMs(right) - madeAtMs(left));
  return newestFirst.filter((stored, index) => index >= MAX_KEPT || isOld(stored, look));
}

/** One of the future is of an API server whose clock was ahead, or this front's is behind. */
function isOld(stored: KnownCreation, { nowMs, since }: Look): boolean {
  const atMs = madeAtMs(stored);
  if (atMs <= nowMs) return atMs < nowMs - KEPT_MS;
  return since.lasts(`creation of the future ${stored.metadata.uid}`, KEPT_MS);
}

/** Every change names the version that was seen, so a front that lives after all finds it changed. */
async function settle({ api }: DutyContext, stored: KnownCreation): Promise<void> {
  const { sandbox } = stored.creation;
  const record = sandbox === null ? undefined : await readRecord(api, sandbox.sandboxId);
  const state = record?.record?.state;
  // Its start is undone by another duty first.
  if (state === "starting") return;
  if (state === "running" || state === "paused") {
    await changeCreation(api, stored, { isKept: true });
    return;
  }
  await removeCreation(api, stored);
}
