/**
 * The record of a snapshot: one ConfigMap. It is pending while its image is made, ready, and removing
 * from the decision on until the image is gone. Every change names the version that it was made from.
 */

import { SandboxError } from "../../common/errors.ts";
import { sha256Hex } from "../../common/hash.ts";
import { z } from "../../common/schema.ts";
import { isConflict, type ClusterApi } from "../api/api.ts";
import { readObject, removeObject } from "../api/object-calls.ts";
import { configMapSchema, partLabels, partSelector } from "../api/objects.ts";
import { parseStored } from "../api/stored-text.ts";

const PART_VALUE = "snapshot";
/** By which those of one template are found. */
export const TEMPLATE = "sandbox-mcp.io/template";
export const SNAPSHOT_SELECTOR: string = partSelector(PART_VALUE);
const ID_CHARACTERS = 20;
const MAX_ROUNDS = 8;

const snapshotSchema = z.object({
  buildId: z.string(),
  templateId: z.string(),
  team: z.string(),
  alias: z.string().nullable(),
  tag: z.string(),
  /** That of a fork is for its sandboxes alone, that of a pause for its one sandbox. */
  kind: z.enum(["snapshot", "fork", "pause"]),
  state: z.enum(["pending", "ready", "removing"]),
  /**
   * The front that makes it, and which alone may still name it in records of sandboxes; then the one
   * that removes it.
   */
  owner: z.string(),
  /** Whether all records that are to name it do so. */
  isReleased: z.boolean(),
  sourceSandboxId: z.string(),
  createdAtMs: z.number(),
  /** `[http://]HOST/REPOSITORY` */
  registry: z.string(),
  /** As a Pod names it, by its digest; empty while it is pending. */
  image: z.string(),
  defaultUser: z.string(),
  defaultWorkdir: z.string(),
});

export type SnapshotRecord = z.infer<typeof snapshotSchema>;

/** Without a record where its text is none of ours, or is that of another snapshot. */
export const storedSnapshotSchema = configMapSchema.transform(({ metadata, data = {} }) => {
  const parsed = parseStored(data["snapshot"], snapshotSchema);
  const isOwn = parsed !== undefined && metadata.name === snapshotName(parsed.buildId);
  return { metadata, snapshot: isOwn ? parsed : undefined };
});

export type StoredSnapshot = z.infer<typeof storedSnapshotSchema>;
export type KnownSnapshot = StoredSnapshot & { readonly snapshot: SnapshotRecord };

export function isKnownSnapshot(stored: StoredSnapshot | undefined): stored is KnownSnapshot {
  return stored?.snapshot !== undefined;
}

/** The name of its ConfigMap, and the tag of its image. */
export function snapshotName(buildId: string): string {
  return `snapshot-${buildId}`;
}

/** All snapshots of a name are of one template, in every front. */
export function namedTemplateId(team: string, alias: string): string {
  const hash = sha256Hex(`snapshot\n${team}\n${alias}`);
  return hash.slice(0, ID_CHARACTERS);
}

export async function addSnapshot(
  api: ClusterApi,
  snapshot: SnapshotRecord,
): Promise<KnownSnapshot> {
  const labels = { ...partLabels(PART_VALUE), [TEMPLATE]: snapshot.templateId };
  const metadata = { name: snapshotName(snapshot.buildId), labels };
  const data = { snapshot: JSON.stringify(snapshot) };
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
  return toKnown(await api.call({ method: "POST", path: "configmaps", body }), snapshot);
}

/** Undefined when there is none. */
export async function readSnapshot(
  api: ClusterApi,
  buildId: string,
): Promise<StoredSnapshot | undefined> {
  return readObject(api, { path: `configmaps/${snapshotName(buildId)}` }, storedSnapshotSchema);
}

/**
 * Changes the newest state while `holds` is true of it; undefined once it is not, or there is none that
 * can be read.
 * @throws SandboxError unavailable when others change it all the time
 */
export async function changeSnapshot(
  api: ClusterApi,
  buildId: string,
  {
    changes,
    holds,
  }: {
    readonly changes: Partial<SnapshotRecord>;
    readonly holds: (snapshot: SnapshotRecord) => boolean;
  },
): Promise<KnownSnapshot | undefined> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const stored = await readSnapshot(api, buildId);
    if (!isKnownSnapshot(stored) || !holds(stored.snapshot)) return undefined;
    const { name, uid, resourceVersion } = stored.metadata;
    const snapshot = { ...stored.snapshot, ...changes };
    const body = {
      metadata: { resourceVersion, uid },
      data: { snapshot: JSON.stringify(snapshot) },
    };
    try {
      const path = `configmaps/${name}`;
      return toKnown(await api.call({ method: "PATCH", path, body }), snapshot);
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
  throw new SandboxError("unavailable", `the record of snapshot ${buildId} stays busy`);
}

export async function eraseSnapshot(api: ClusterApi, buildId: string): Promise<void> {
  await removeObject(api, `configmaps/${snapshotName(buildId)}`);
}

function toKnown(reply: unknown, snapshot: SnapshotRecord): KnownSnapshot {
  return { ...storedSnapshotSchema.parse(reply), snapshot };
}
