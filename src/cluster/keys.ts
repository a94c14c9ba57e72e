/**
 * API keys of an installation, in a Secret of the namespace: the hash of each key with its team. Fronts
 * read it every few seconds, and every front knows the same keys.
 */

import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { tryParseAs } from "../common/json.ts";
import type { Logger } from "../common/log.ts";
import { keyRecordSchema, type KeyRecord, type KeyTable } from "../store/store.ts";
import type { ClusterApi } from "./api/api.ts";
import { createLastingFault } from "./api/lasting-fault.ts";
import { readObject } from "./api/object-calls.ts";
import { configMapSchema, partLabels } from "./api/objects.ts";

export const KEYS_SECRET = "sandbox-mcp-keys";
const PATH = `secrets/${KEYS_SECRET}`;
const HASH_PATTERN = /^[0-9a-f]{64}$/;
/** A key that was made or revoked counts at every front after this time. */
const READ_MS = 5_000;
/** A Secret ends at 1 MiB. */
const MAX_KEYS = 2_000;

/** The keys that a front knows. */
export interface ClusterKeys extends AsyncDisposable {
  readonly keys: Pick<KeyTable, "getByHash" | "teams">;
}

/** Reads the keys now and from then on; while the API server is away, those of before count. */
export async function startClusterKeys(api: ClusterApi, log: Logger): Promise<ClusterKeys> {
  let known = byHash(await readKeys(api));
  const fault = createLastingFault({ log, fields: { op: "cluster.keys", subject: KEYS_SECRET } });
  const read = async () => {
    try {
      known = byHash(await readKeys(api));
      fault.clear();
    } catch (error) {
      fault.note(error);
    }
  };
  let reading: Promise<void> | undefined;
  const timer = setInterval(() => {
    reading ??= read().finally(() => (reading = undefined));
  }, READ_MS).unref();
  return {
    keys: {
      getByHash: (hash) => known.get(hash),
      teams: () => [...new Set([...known.values()].map(({ team }) => team))],
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await reading;
    },
  };
}

function byHash(records: readonly KeyRecord[]): ReadonlyMap<string, KeyRecord> {
  return new Map(records.map((record) => [record.hash, record]));
}

/** Without the Secret there are none; entries of another form are none of ours. */
export async function readKeys(api: ClusterApi): Promise<KeyRecord[]> {
  // Secrets have the same form.
  const { data = {} } = (await readObject(api, { path: PATH }, configMapSchema)) ?? {};
  return Object.entries(data).flatMap(([hash, text]) => parseEntry(hash, text));
}

function parseEntry(hash: string, text: string): KeyRecord[] {
  if (!HASH_PATTERN.test(hash)) return [];
  const record = tryParseAs(Buffer.from(text, "base64"), keyRecordSchema);
  return record?.hash === hash ? [record] : [];
}

/** @throws SandboxError resource_exhausted, and as `ClusterApi.call` */
export async function addKey(api: ClusterApi, record: KeyRecord): Promise<void> {
  if ((await readKeys(api)).length >= MAX_KEYS) {
    throw new SandboxError("resource_exhausted", `there are ${MAX_KEYS} keys`, {
      hint: "revoke those that are not used: key list, key revoke ID",
    });
  }
  const data = { [record.hash]: Buffer.from(JSON.stringify(record)).toString("base64") };
  try {
    await patchKeys(api, data);
  } catch (error) {
    if (!hasErrorCode(error, "not_found")) throw error;
    await makeSecret(api, data);
  }
}

/** Of two that make it at once one wins, and the other adds to it. */
async function makeSecret(api: ClusterApi, data: Readonly<Record<string, string>>): Promise<void> {
  const metadata = { name: KEYS_SECRET, labels: partLabels("keys") };
  const body = { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", data };
  try {
    await api.call({ method: "POST", path: "secrets", body });
  } catch (error) {
    if (!hasErrorCode(error, "already_exists")) throw error;
    await patchKeys(api, data);
  }
}

export async function removeKey(api: ClusterApi, { hash }: KeyRecord): Promise<void> {
  await patchKeys(api, { [hash]: null });
}

async function patchKeys(
  api: ClusterApi,
  data: Readonly<Record<string, string | null>>,
): Promise<void> {
  await api.call({ method: "PATCH", path: PATH, body: { data } });
}
