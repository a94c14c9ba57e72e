/**
 * A volume is one PersistentVolumeClaim: its name follows from team and name, so of two creates one
 * wins, and its uid is the identifier. What else there is to know is in an annotation, without secrets.
 */

import { sha256Hex } from "../../common/hash.ts";
import { tryParseAs } from "../../common/json.ts";
import type { Logger } from "../../common/log.ts";
import { z } from "../../common/schema.ts";
import type { ClusterApi } from "../api/api.ts";
import { listObjects } from "../api/list-pages.ts";
import { readObject } from "../api/object-calls.ts";
import { claimSchema, PART, partLabels, partSelector } from "../api/objects.ts";
import { startWatchCache, type WatchCache } from "../api/watch-cache.ts";

const PART_VALUE = "volume";
const FACTS = "sandbox-mcp.io/volume";
/** From the decision to remove it until it is gone: no sandbox can get it any more. */
const REMOVING = "sandbox-mcp.io/removing";
const TEAM = "sandbox-mcp.io/team";
const LABEL = /^[a-z0-9](?:[a-z0-9_.-]{0,61}[a-z0-9])?$/i;
const HASH_CHARACTERS = 40;
const VOLUME_SELECTOR = partSelector(PART_VALUE);

/** What the claims of volumes ask for. */
export interface VolumeSettings {
  readonly storageClass: string;
  readonly accessMode: string;
  readonly sizeMb: number;
}

const factsSchema = z.object({
  name: z.string(),
  team: z.string(),
  createdAtMs: z.number(),
  sizeMb: z.number(),
});

type VolumeFacts = z.infer<typeof factsSchema>;

/** Without its facts where they are none of ours, or are those of another claim, as of a restored copy. */
export const storedVolumeSchema = claimSchema.transform(({ metadata }) => {
  const facts = tryParseAs(Buffer.from(metadata.annotations?.[FACTS] ?? ""), factsSchema);
  const isOwn = facts !== undefined && metadata.name === claimName(facts.team, facts.name);
  return {
    metadata,
    volume: isOwn ? facts : undefined,
    isRemoved:
      metadata.deletionTimestamp !== undefined || metadata.annotations?.[REMOVING] !== undefined,
  };
});

export type StoredVolume = z.infer<typeof storedVolumeSchema>;
export type KnownVolume = StoredVolume & { readonly volume: VolumeFacts };

/** One whose text could be read, and that was not removed. */
export function isThere(stored: StoredVolume | undefined): stored is KnownVolume {
  return stored?.volume !== undefined && !stored.isRemoved;
}

export function claimName(team: string, name: string): string {
  const hash = sha256Hex(`volume\n${team}\n${name}`);
  return `volume-${hash.slice(0, HASH_CHARACTERS)}`;
}

/** The object to create. */
export function toClaim(facts: VolumeFacts, settings: VolumeSettings) {
  const { team, name } = facts;
  const metadata = {
    name: claimName(team, name),
    labels: { ...partLabels(PART_VALUE), ...(LABEL.test(team) && { [TEAM]: team }) },
    annotations: { [FACTS]: JSON.stringify(facts) },
  };
  const spec = toClaimSpec(settings);
  return { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata, spec };
}

/** @throws SandboxError already_exists, resource_exhausted for a quota */
export async function addClaim(
  api: ClusterApi,
  facts: VolumeFacts,
  settings: VolumeSettings,
): Promise<StoredVolume> {
  const body = toClaim(facts, settings);
  const path = "persistentvolumeclaims";
  return storedVolumeSchema.parse(await api.call({ method: "POST", path, body }));
}

export function toClaimSpec({ storageClass, accessMode, sizeMb }: VolumeSettings) {
  return {
    storageClassName: storageClass,
    accessModes: [accessMode],
    resources: { requests: { storage: `${sizeMb}Mi` } },
  };
}

/** Undefined when there is none. */
export async function readClaim(api: ClusterApi, claim: string): Promise<StoredVolume | undefined> {
  const path = `persistentvolumeclaims/${claim}`;
  const stored = await readObject(api, { path }, storedVolumeSchema);
  return stored?.metadata.labels?.[PART] === PART_VALUE ? stored : undefined;
}

export async function readClaims(api: ClusterApi): Promise<readonly StoredVolume[]> {
  const kind = "persistentvolumeclaims";
  const { items } = await listObjects(api, { kind, selector: VOLUME_SELECTOR });
  return items.map((item) => storedVolumeSchema.parse(item));
}

/** Sets or takes back the mark of a removal. @throws SandboxError failed_precondition when it was changed meanwhile */
export async function markClaim(
  api: ClusterApi,
  { metadata: { name, uid, resourceVersion } }: StoredVolume,
  mark: string | null,
): Promise<StoredVolume> {
  const body = { metadata: { uid, resourceVersion, annotations: { [REMOVING]: mark } } };
  const path = `persistentvolumeclaims/${name}`;
  return storedVolumeSchema.parse(await api.call({ method: "PATCH", path, body }));
}

/** The volumes of every team. */
export function watchVolumes(api: ClusterApi, log: Logger): WatchCache<StoredVolume> {
  const kind = "persistentvolumeclaims";
  return startWatchCache({ api, log, kind, selector: VOLUME_SELECTOR, schema: storedVolumeSchema });
}
