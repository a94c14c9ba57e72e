/**
 * What the leading front does about the keys of creates: those whose front died are settled by what
 * became of their sandbox, and those that are too old or too many are removed.
 */

import { KEPT_MS, MAX_KEPT } from "../../sandboxes/creation-record.ts";
import type { ClusterContext } from "../context.ts";
import type { Duty } from "../duty-works.ts";
import type { Observations } from "../observations.ts";
import { readRecord } from "../records.ts";
import { changeCreation, removeCreation, type KnownCreation } from "./creations.ts";

/** A front whose Lease is seen late is not taken for dead. */
const OWNER_GRACE_MS = 5_000;
/**
 * Longer than any create. The record of a key may come into being after its front has given up the
 * request that made it, and has found nothing to remove.
 */
const MAX_CREATE_MS = 300_000;
/** Clocks of nodes differ by less. One that is further ahead was set, and its keys would stay till then. */
const MAX_AHEAD_MS = 60_000;

type DutyContext = Pick<ClusterContext, "api" | "clock" | "creations" | "fronts">;

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
    for (const stored of outdated(ofTeam, nowMs - KEPT_MS)) {
      works.push({ name: stored.metadata.uid, run: () => removeCreation(api, stored) });
    }
    for (const stored of ofTeam.filter((one) => ageOf(one) > nowMs + MAX_AHEAD_MS)) {
      works.push({ name: stored.metadata.uid, run: () => keepFromNow(context, stored) });
    }
  }
  return works;
}

/** Whether no front will finish its create. */
function isLeft(uid: string, isOwnerAlive: boolean, since: Pick<Observations, "lasts">): boolean {
  if (since.lasts(`creation ${uid}`, MAX_CREATE_MS)) return true;
  return !isOwnerAlive && since.lasts(`creation of a dead front ${uid}`, OWNER_GRACE_MS);
}

/** Those that are too old, and the oldest ones beyond the most that are kept. */
function outdated(kept: readonly KnownCreation[], sinceMs: number): KnownCreation[] {
  const newestFirst = kept.toSorted((left, right) => ageOf(right) - ageOf(left));
  return newestFirst.filter((stored, index) => index >= MAX_KEPT || ageOf(stored) < sinceMs);
}

function ageOf({ creation }: KnownCreation): number {
  return creation.createdAtMs;
}

/** Every change names the version that was seen, so a front that lives after all finds it changed. */
async function settle({ api, clock }: DutyContext, stored: KnownCreation): Promise<void> {
  const { sandbox } = stored.creation;
  const record = sandbox === null ? undefined : await readRecord(api, sandbox.sandboxId);
  const state = record?.record?.state;
  // Its start is undone by another duty first.
  if (state === "starting") return;
  if (state === "running" || state === "paused") {
    await keepFromNow({ api, clock }, stored);
    return;
  }
  await removeCreation(api, stored);
}

async function keepFromNow(
  { api, clock }: Pick<DutyContext, "api" | "clock">,
  stored: KnownCreation,
) {
  await changeCreation(api, stored, { isKept: true, createdAtMs: clock.now() });
}
