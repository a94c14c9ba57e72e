/** Volumes as a team asks for them. One that is removed is marked first: then no sandbox can get it. */

import { anySignal } from "../../common/any-signal.ts";
import { errorText, hasErrorCode, SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import {
  MAX_VOLUMES,
  requireVolumeId,
  requireVolumeName,
} from "../../sandboxes/volumes/volume-rules.ts";
import type { Volume } from "../../sandboxes/volumes/volumes.ts";
import { MESSAGES } from "../../wire/messages.ts";
import { isConflict } from "../api/api.ts";
import { removeObject } from "../api/object-calls.ts";
import { isBusy } from "../api/repeat-busy.ts";
import type { ClusterContext } from "../context.ts";
import type { Duty } from "../duty-works.ts";
import { missingAbility } from "../missing-abilities.ts";
import type { Observations } from "../observations.ts";
import { readRecords } from "../present-state.ts";
import { usesVolume } from "../records.ts";
import {
  addClaim,
  claimName,
  isThere,
  markClaim,
  readClaim,
  readClaims,
  type KnownVolume,
  type StoredVolume,
  type VolumeSettings,
} from "./records.ts";

/** Changes of a claim by the cluster that a removal waits for. */
const MAX_ROUNDS = 8;
/** Kubernetes keeps a claim until the Pods that had it are gone. */
const GONE_TIMEOUT_MS = 15_000;
/** A removal that its own front still carries out is not done twice. */
const REMOVING_GRACE_MS = 10_000;

interface VolumeSubject {
  readonly team: string;
  readonly volumeId: string;
}

/**
 * Makes an empty volume.
 * @throws SandboxError invalid_argument for a bad name, or one that is taken, resource_exhausted when the
 * team or the namespace has as many as it may, unavailable while an older one of its name is removed
 */
export async function createVolume(
  context: ClusterContext,
  team: string,
  name: string,
): Promise<Volume> {
  const { api, volumes, volumeSettings: settings } = context;
  if (volumes === undefined || settings === undefined) throw missingAbility("volumes");
  requireVolumeName(name);
  const amount = volumesOf(context, team).length;
  if (amount >= MAX_VOLUMES) {
    const message = `your team has ${amount} volumes of at most ${MAX_VOLUMES}`;
    throw new SandboxError("resource_exhausted", message);
  }
  const facts = { name, team, createdAtMs: context.clock.now(), sizeMb: settings.sizeMb };
  for (let isAgain = false; ; isAgain = true) {
    try {
      const stored = await addOnce(api, facts, settings);
      volumes.apply(stored);
      return toVolume(context, { ...stored, volume: facts });
    } catch (error) {
      if (!hasErrorCode(error, "already_exists")) throw error;
      await awaitEnd(context, claimName(team, name), { name, isAgain });
    }
  }
}

/** The claim of these facts, also where the answer to its request was lost. @throws SandboxError as `addClaim` */
async function addOnce(
  api: ClusterContext["api"],
  facts: KnownVolume["volume"],
  settings: VolumeSettings,
): Promise<StoredVolume> {
  try {
    return await addClaim(api, facts, settings);
  } catch (error) {
    if (!hasErrorCode(error, "unavailable") || isBusy(error)) throw error;
    const found = await readClaim(api, claimName(facts.team, facts.name)).catch(() => undefined);
    if (isThere(found) && found.volume.createdAtMs === facts.createdAtMs) return found;
    throw new SandboxError("unavailable", errorText(error), {
      cause: error,
      hint: "the cluster may make the volume all the same: look for it before another attempt",
      retryAfterSeconds: error instanceof SandboxError ? error.retryAfterSeconds : undefined,
    });
  }
}

/** @throws SandboxError invalid_argument unless the one of that name was removed */
async function awaitEnd(
  { api, volumes, closing }: ClusterContext,
  claim: string,
  { name, isAgain }: { readonly name: string; readonly isAgain: boolean },
): Promise<void> {
  const stored = await readClaim(api, claim);
  if (stored === undefined && !isAgain) return;
  if (stored?.isRemoved !== true || isAgain) {
    throw new SandboxError("invalid_argument", `Volume with name '${name}' already exists`);
  }
  volumes?.apply(stored);
  const late = signalAfter(GONE_TIMEOUT_MS);
  try {
    await volumes?.until(claim, findEnd, anySignal([closing, late]));
  } catch (error) {
    throw new SandboxError("unavailable", `the old volume '${name}' is still being removed`, {
      cause: error,
    });
  }
}

function findEnd(item: StoredVolume | undefined): string | undefined {
  return item === undefined ? "gone" : undefined;
}

/** Oldest first. */
export function listVolumes(context: ClusterContext, team: string): Volume[] {
  return volumesOf(context, team)
    .toSorted(({ volume: left }, { volume: right }) => left.createdAtMs - right.createdAtMs)
    .map((stored) => toVolume(context, stored));
}

/** @throws SandboxError invalid_argument for no identifier, not_found when there is none. */
export async function getVolume(context: ClusterContext, subject: VolumeSubject): Promise<Volume> {
  return toVolume(context, await findVolume(context, subject));
}

/**
 * Removes a volume with everything in it.
 * @throws SandboxError as `getVolume`, and failed_precondition while a sandbox has it.
 */
export async function removeVolume(context: ClusterContext, subject: VolumeSubject): Promise<void> {
  const { api, fronts, volumes } = context;
  let stored: StoredVolume = await findVolume(context, subject, "fresh");
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    let isRemoved: boolean;
    try {
      const marked = await markClaim(api, stored, fronts.name);
      volumes?.apply(marked);
      isRemoved = await finishRemoval(context, marked);
    } catch (error) {
      if (!isConflict(error) && !hasErrorCode(error, "not_found")) throw error;
      const { name, uid } = stored.metadata;
      const present = await readClaim(api, name);
      // The leading front goes on with a mark as well.
      if (present?.metadata.uid !== uid) return;
      stored = present;
      continue;
    }
    if (isRemoved) return;
    throw new SandboxError("failed_precondition", "Volume is mounted in a sandbox");
  }
  throw new SandboxError("unavailable", "the volume stays busy");
}

/**
 * Goes on with a removal: records of sandboxes are counted after the mark, and a create reads the mark
 * after its record is written, so of two that race one is refused. False for one that a sandbox has.
 */
async function finishRemoval(context: ClusterContext, marked: StoredVolume): Promise<boolean> {
  const { api, volumes } = context;
  const { name, uid, resourceVersion } = marked.metadata;
  if (await isMounted(context, uid)) {
    volumes?.apply(await markClaim(api, marked, null));
    return false;
  }
  const preconditions = { uid, resourceVersion };
  await removeObject(api, `persistentvolumeclaims/${name}`, { preconditions });
  return true;
}

async function isMounted({ api }: ClusterContext, volumeId: string): Promise<boolean> {
  return (await readRecords(api)).some((stored) => usesVolume(stored, volumeId));
}

/** What the leading front does: it goes on with removals whose front died. */
export function volumeDuties(context: ClusterContext, since: Pick<Observations, "lasts">): Duty[] {
  return [...(context.volumes?.items.values() ?? [])]
    .filter(({ metadata, isRemoved }) => isRemoved && metadata.deletionTimestamp === undefined)
    .filter(({ metadata: { uid } }) => since.lasts(`volume ${uid}`, REMOVING_GRACE_MS))
    .map((stored) => ({ name: stored.metadata.uid, run: async () => goOn(context, stored) }));
}

async function goOn(context: ClusterContext, stored: StoredVolume): Promise<void> {
  try {
    await finishRemoval(context, stored);
  } catch (error) {
    // What it has become meanwhile is looked at again.
    if (!isConflict(error)) throw error;
  }
}

/** The one that a create has just made may not be seen yet. @throws SandboxError */
async function findVolume(
  context: ClusterContext,
  { team, volumeId }: VolumeSubject,
  wanted: "known" | "fresh" = "known",
): Promise<KnownVolume> {
  const { api, volumes } = context;
  if (volumes === undefined) throw missingAbility("volumes");
  requireVolumeId(volumeId);
  const find = () => volumesOf(context, team).find(({ metadata: { uid } }) => uid === volumeId);
  const known = find();
  if (known !== undefined && wanted === "known") return known;
  const read =
    known === undefined ? await readClaims(api) : [await readClaim(api, known.metadata.name)];
  for (const stored of read) if (stored !== undefined) volumes.apply(stored);
  const found = read.find((stored) => stored?.metadata.uid === volumeId);
  if (isThere(found) && found.volume.team === team) return found;
  throw new SandboxError("not_found", MESSAGES.volumeMissing);
}

function volumesOf({ volumes }: Pick<ClusterContext, "volumes">, team: string): KnownVolume[] {
  const all: StoredVolume[] = [...(volumes?.items.values() ?? [])];
  return all.filter((stored) => isThere(stored)).filter(({ volume }) => volume.team === team);
}

function toVolume(
  { cluster }: Pick<ClusterContext, "cluster">,
  { metadata: { uid: volumeId }, volume }: KnownVolume,
): Volume {
  return { volumeId, ...volume, token: cluster.secrets.volumeToken(volumeId) };
}
