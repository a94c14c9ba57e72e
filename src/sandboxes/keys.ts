/** API keys of the local service: shown once, stored as a hash. */

import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../common/clock.ts";
import type { KeyRecord, Store } from "../store/store.ts";

const KEY_PREFIX = "e2b_";
const KEY_BYTES = 20;
const KEY_PATTERN = /^e2b_[0-9a-f]{40}$/;
const ID_CHARACTERS = 8;
const MASK_START = 2;
const MASK_END = 4;

/** A key that was just made; nothing gives it out a second time. */
export interface NewKey {
  readonly key: string;
  readonly record: KeyRecord;
}

/** `e2b_` and forty hex digits. */
export function newKey(): string {
  return `${KEY_PREFIX}${randomBytes(KEY_BYTES).toString("hex")}`;
}

/** Makes and stores a key. The name is for people; several keys may share one. */
export function createKey(store: Store, clock: Clock, name: string): NewKey {
  const key = newKey();
  const hash = hashKey(key);
  const value = key.slice(KEY_PREFIX.length);
  const record: KeyRecord = {
    keyId: hash.slice(0, ID_CHARACTERS),
    name,
    hash,
    mask: `${KEY_PREFIX}${value.slice(0, MASK_START)}…${value.slice(-MASK_END)}`,
    createdAtMs: clock.now(),
  };
  store.keys.add(record);
  return { key, record };
}

/** Oldest first. */
export function listKeys(store: Store): KeyRecord[] {
  return store.keys.all().toSorted((left, right) => left.createdAtMs - right.createdAtMs);
}

/** Revokes every key of this identifier or name, at once and in every running service. */
export function revokeKeys(store: Store, idOrName: string): KeyRecord[] {
  const found = listKeys(store).filter(
    ({ keyId, name }) => keyId === idOrName || name === idOrName,
  );
  return found.filter(({ keyId }) => store.keys.remove(keyId));
}

/** Knows which keys open the service. */
export interface KeyCheck {
  isAccepted(key: string): boolean;
}

/**
 * Accepts the stored keys, read anew each time so that a revocation counts at once, and the given
 * ones, which are kept as hashes.
 */
export function createKeyCheck(store: Store, given: readonly string[]): KeyCheck {
  const hashes = new Set(given.map(hashKey));
  return {
    isAccepted(key) {
      // Found by hash: how long that takes tells nothing about the key.
      const hash = hashKey(key);
      if (hashes.has(hash)) return true;
      return KEY_PATTERN.test(key) && store.keys.getByHash(hash) !== undefined;
    },
  };
}

function hashKey(key: string): string {
  return createHash("sha256").update(key, "utf8").digest("hex");
}
