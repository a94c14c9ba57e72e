/**
 * The record of a create with an idempotency key: one ConfigMap whose name follows from team and key,
 * so that of several fronts one makes it. It is opened by the front that creates, names the sandbox
 * before that is a running one, and is kept when it is.
 */

import { sha256Hex } from "../../common/hash.ts";
import { z } from "../../common/schema.ts";
import type { IsolationLevel } from "../../engine/engine.ts";
import { creationRecordSchema, type SandboxRecord } from "../../store/store.ts";
import { isConflict, type ClusterApi } from "../api/api.ts";
import { readObject, removeObject } from "../api/object-calls.ts";
import { configMapSchema, partLabels, partSelector } from "../api/objects.ts";
import { parseStored } from "../api/stored-text.ts";

const PART_VALUE = "creation";
const HASH_CHARACTERS = 40;
export const CREATION_SELECTOR: string = partSelector(PART_VALUE);

const creationSchema = z.object({
  ...creationRecordSchema.shape,
  /** The front that creates; it matters only while the record is not kept. */
  owner: z.string(),
  /** Of the request that wrote it: tells its record from that of another one, whatever was answered. */
  attempt: z.string(),
  /** Null until a sandbox is about to become a running one. */
  sandbox: creationRecordSchema.shape.sandbox.nullable(),
  /** Whether the sandbox runs, or did: requests with the key are answered with it. */
  isKept: z.boolean(),
});

export type Creation = z.infer<typeof creationSchema>;

/** With the version that a change must name; undefined where its text is none of ours, or of another key. */
export const storedCreationSchema = configMapSchema.transform(({ metadata, data = {} }) => {
  const parsed = parseStored(data["creation"], creationSchema);
  const isOwn = parsed !== undefined && metadata.name === creationName(parsed);
  return { metadata, creation: isOwn ? parsed : undefined };
});

export type StoredCreation = z.infer<typeof storedCreationSchema>;

export type KnownCreation = StoredCreation & { readonly creation: Creation };

/**
 * When it was made, by the clock of the API server: that of a front may be behind for a while, and what
 * it wrote would then be too old for the others.
 */
export function madeAtMs({ metadata, creation }: KnownCreation): number {
  const atMs = Date.parse(metadata.creationTimestamp ?? "");
  return Number.isNaN(atMs) ? creation.createdAtMs : atMs;
}

/** The record of a key while this front creates its sandbox. */
export interface OpenCreation {
  /** True once it was taken away: this front was held for dead. Nothing may become running then. */
  readonly isLost: boolean;
  /**
   * Names the sandbox, before it is committed.
   * @throws SandboxError failed_precondition when the record was taken away.
   */
  bind(record: SandboxRecord, level: IsolationLevel): Promise<void>;
}

/** The name of its ConfigMap. */
export function creationName({ team, key }: Pick<Creation, "team" | "key">): string {
  const hash = sha256Hex(`${team}\n${key}`);
  return `creation-${hash.slice(0, HASH_CHARACTERS)}`;
}

/** @throws SandboxError already_exists while there is one of the same key. */
export async function addCreation(
  api: ClusterApi,
  creation: Creation,
  signal: AbortSignal,
): Promise<KnownCreation> {
  const name = creationName(creation);
  const metadata = { name, labels: partLabels(PART_VALUE) };
  const data = { creation: JSON.stringify(creation) };
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
  return toKnown(await api.call({ method: "POST", path: "configmaps", body, signal }), creation);
}

/** @throws SandboxError failed_precondition when it was changed meanwhile, not_found. */
export async function changeCreation(
  api: ClusterApi,
  { metadata, creation: before }: KnownCreation,
  changes: Partial<Creation>,
): Promise<KnownCreation> {
  const { name, resourceVersion, uid } = metadata;
  const creation = { ...before, ...changes };
  const body = {
    metadata: { resourceVersion, uid },
    data: { creation: JSON.stringify(creation) },
  };
  return toKnown(await api.call({ method: "PATCH", path: `configmaps/${name}`, body }), creation);
}

/** Undefined when there is none. */
export async function readCreation(
  api: ClusterApi,
  name: string,
): Promise<StoredCreation | undefined> {
  return readObject(api, { path: `configmaps/${name}` }, storedCreationSchema);
}

/** Removes it as it was read; false when it was changed meanwhile. */
export async function removeCreation(
  api: ClusterApi,
  { metadata: { name, uid, resourceVersion } }: StoredCreation,
): Promise<boolean> {
  try {
    await removeObject(api, `configmaps/${name}`, { preconditions: { uid, resourceVersion } });
    return true;
  } catch (error) {
    if (isConflict(error)) return false;
    throw error;
  }
}

function toKnown(reply: unknown, creation: Creation): KnownCreation {
  return { ...storedCreationSchema.parse(reply), creation };
}
