/**
 * The record of a sandbox: one ConfigMap, without any secret in it (variables are sealed under the
 * seed). Every change names the version that it was made from, so of two changes one wins.
 */

import { randomUUID } from "node:crypto";
import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { z } from "../common/schema.ts";
import { ISOLATION_LEVELS, type IsolationLevel } from "../engine/engine.ts";
import { sandboxRecordSchema, type SandboxRecord } from "../store/store.ts";
import { sandboxMissing } from "../wire/messages.ts";
import type { ClusterApi } from "./api/api.ts";
import { readObject } from "./api/object-calls.ts";
import { configMapSchema, PART, partLabels, partSelector } from "./api/objects.ts";
import { parseStored } from "./api/stored-text.ts";

const PART_VALUE = "sandbox";
/** A change that changes nothing keeps its version: this is another value each time. */
const TOUCHED = "sandbox-mcp.io/touched";
/** Kubernetes stores objects of at most 1 MiB. */
const MAX_RECORD_BYTES = 900_000;
export const RECORD_SELECTOR: string = partSelector(PART_VALUE);

const changeSchema = z.object({
  kind: z.enum(["pausing", "resuming"]),
  /** The front that carries it out. */
  owner: z.string(),
  /** Tells it from another one of the same front, whatever was answered. */
  attempt: z.string().optional(),
  reason: z.enum(["request", "timeout"]).optional(),
});

/** What is under way with a sandbox that runs or is paused: the intent, until it is done or undone. */
export type SandboxChange = z.infer<typeof changeSchema>;

/**
 * A record with the version that a change of it must name; undefined where its text is none of ours, or
 * is that of another sandbox, as in a copy that was made by hand.
 */
export const storedSchema = configMapSchema.transform(({ metadata, data = {} }) => {
  const level = z.enum(ISOLATION_LEVELS).catch("none").parse(data["level"]);
  const change = parseStored(data["change"], changeSchema);
  const { record: text } = data;
  const parsed = parseStored(text, sandboxRecordSchema);
  // What is under way is known, or nothing is done.
  const isRead = (data["change"] === undefined) === (change === undefined);
  if (isRead && parsed?.sandboxId === metadata.name)
    return { metadata, level, change, record: parsed };
  return { metadata, level, change, record: undefined, unread: text };
});

export interface StoredSandbox {
  readonly metadata: z.infer<typeof configMapSchema>["metadata"];
  readonly level: IsolationLevel;
  readonly change: SandboxChange | undefined;
  readonly record: SandboxRecord | undefined;
  /** The text of one that could not be read, as that of a newer version: what it names stays. */
  readonly unread?: string | undefined;
}

/** One whose text could be read. */
export type KnownSandbox = StoredSandbox & { readonly record: SandboxRecord };

export function isKnown(stored: StoredSandbox | undefined): stored is KnownSandbox {
  return stored?.record !== undefined;
}

/** Whether a sandbox has its files from this image, or may have them. */
export function usesImage({ record, unread }: StoredSandbox, buildId: string): boolean {
  return record === undefined ? unread?.includes(buildId) === true : record.buildId === buildId;
}

/** Whether a sandbox has this volume, or may have it. */
export function usesVolume({ record, unread }: StoredSandbox, volumeId: string): boolean {
  if (record === undefined) return unread?.includes(volumeId) === true;
  return record.volumeMounts.some((mount) => mount.volumeId === volumeId);
}

/** @throws SandboxError already_exists for a name that is taken. */
export async function addRecord(
  api: ClusterApi,
  record: SandboxRecord,
  signal: AbortSignal,
): Promise<KnownSandbox> {
  const metadata = { name: record.sandboxId, labels: partLabels(PART_VALUE) };
  const data = { record: JSON.stringify(record), level: "none" };
  if (Buffer.byteLength(data.record) > MAX_RECORD_BYTES) {
    const message = `variables and metadata exceed ${MAX_RECORD_BYTES} bytes`;
    throw new SandboxError("invalid_argument", message);
  }
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
  return toKnown(await api.call({ method: "POST", path: "configmaps", body, signal }), record);
}

/** Fields of the record, the level that was measured, and what is under way; null ends that. */
export type RecordChanges = Partial<SandboxRecord> & {
  readonly level?: IsolationLevel;
  readonly change?: SandboxChange | null;
};

/** @throws SandboxError failed_precondition when it was changed meanwhile, not_found. */
export async function changeRecord(
  api: ClusterApi,
  stored: KnownSandbox,
  { level = stored.level, change, ...changes }: RecordChanges,
): Promise<KnownSandbox> {
  const { name, resourceVersion, uid } = stored.metadata;
  const record = { ...stored.record, ...changes };
  const body = {
    metadata: { resourceVersion, uid },
    data: {
      record: JSON.stringify(record),
      level,
      ...(change !== undefined && { change: change && JSON.stringify(change) }),
    },
  };
  try {
    return toKnown(await api.call({ method: "PATCH", path: `configmaps/${name}`, body }), record);
  } catch (error) {
    if (!hasErrorCode(error, "not_found")) throw error;
    // It was ended meanwhile, as by another front.
    throw new SandboxError("not_found", sandboxMissing(name), { cause: error });
  }
}

/**
 * Gives it another version, and nothing else: a change that named the one of before is refused if
 * Kubernetes carries it out only now.
 */
export async function touchRecord(
  api: ClusterApi,
  { metadata: { name, resourceVersion, uid }, record }: KnownSandbox,
): Promise<KnownSandbox> {
  const metadata = { resourceVersion, uid, annotations: { [TOUCHED]: randomUUID() } };
  return toKnown(
    await api.call({ method: "PATCH", path: `configmaps/${name}`, body: { metadata } }),
    record,
  );
}

/** Undefined when there is none. */
export async function readRecord(
  api: ClusterApi,
  sandboxId: string,
): Promise<StoredSandbox | undefined> {
  const stored = await readObject(api, { path: `configmaps/${sandboxId}` }, storedSchema);
  // Another ConfigMap of the namespace may have a name that could be that of a sandbox.
  return stored?.metadata.labels?.[PART] === PART_VALUE ? stored : undefined;
}

function toKnown(reply: unknown, record: SandboxRecord): KnownSandbox {
  return { ...storedSchema.parse(reply), record };
}
