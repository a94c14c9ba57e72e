/** API keys of the local service: shown once, stored as a hash. */

import { randomBytes } from "node:crypto";
import type { Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import { sha256Hex } from "../common/hash.ts";
import { countUnsafe, quoteName } from "../common/untrusted-text.ts";
import { DEFAULT_TEAM, type KeyRecord, type Store } from "../store/store.ts";

const KEY_PREFIX = "e2b_";
const KEY_BYTES = 20;
const KEY_PATTERN = /^e2b_[0-9a-f]{40}$/;
const ID_CHARACTERS = 8;
/** It is the namespace of what the team makes. */
const TEAM_PATTERN = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const MAX_NAME_CHARACTERS = 128;
/** Terminals show names, and lists of keys have a line for each. */
const NAME_PATTERN = /^(?! )[^\p{Cc}]*[^\p{Cc}\p{Z}]$/u;
const MAX_IDS_TOLD = 10;
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

/** Who a key is for. The name is for people; several keys may share one. */
export interface KeyHolder {
  readonly name: string;
  readonly team?: string | undefined;
}

/** Makes and stores a key. @throws SandboxError invalid_argument */
export function createKey(store: Store, clock: Clock, holder: KeyHolder): NewKey {
  const made = makeKey(clock, holder);
  store.keys.add(made.record);
  return made;
}

/**
 * Makes a key, to be stored by its record.
 * @throws SandboxError invalid_argument when the team cannot be one, or the name none.
 */
export function makeKey(clock: Clock, { name, team = DEFAULT_TEAM }: KeyHolder): NewKey {
  requireTeam(team);
  requireKeyName(name);
  const key = newKey();
  const hash = sha256Hex(key);
  const value = key.slice(KEY_PREFIX.length);
  const record: KeyRecord = {
    keyId: hash.slice(0, ID_CHARACTERS),
    name,
    team,
    hash,
    mask: `${KEY_PREFIX}${value.slice(0, MASK_START)}…${value.slice(-MASK_END)}`,
    createdAtMs: clock.now(),
  };
  return { key, record };
}

/** @throws SandboxError invalid_argument */
export function requireTeam(team: string): void {
  if (TEAM_PATTERN.test(team)) return;
  throw new SandboxError("invalid_argument", `${quoteName(team)} cannot be a team`, {
    hint: "up to 63 of a-z, 0-9, - and _, a letter or digit first",
  });
}

/** @throws SandboxError invalid_argument */
export function requireKeyName(name: string): void {
  if (name.length > MAX_NAME_CHARACTERS || !NAME_PATTERN.test(name) || countUnsafe(name) > 0) {
    throw new SandboxError("invalid_argument", "the name of the key cannot be used", {
      hint: `1 to ${MAX_NAME_CHARACTERS} visible characters, no line break, no space at an end`,
    });
  }
}

/** Oldest first. */
export function listKeys(store: Store): KeyRecord[] {
  return sortKeys(store.keys.all());
}

/** Oldest first. */
export function sortKeys(records: readonly KeyRecord[]): KeyRecord[] {
  return records.toSorted((left, right) => left.createdAtMs - right.createdAtMs);
}

/**
 * The key with this identifier, else the one with this name: a name that is the identifier of another
 * key does not count.
 * @throws SandboxError not_found, invalid_argument when several keys have the name
 */
export function findKey(records: readonly KeyRecord[], idOrName: string, team?: string): KeyRecord {
  const own = records.filter((record) => team === undefined || record.team === team);
  const byId = own.find(({ keyId }) => keyId === idOrName);
  if (byId !== undefined) return byId;
  const named = own.filter(({ name }) => name === idOrName);
  const [first] = named;
  const what = quoteName(idOrName);
  if (first === undefined) {
    const where = team === undefined ? "" : ` in the team ${quoteName(team)}`;
    throw new SandboxError("not_found", `no key ${what}${where}`, {
      hint: "key list shows all keys",
    });
  }
  if (named.length === 1) return first;
  const ids = named.slice(0, MAX_IDS_TOLD).map(({ keyId }) => keyId);
  const more = named.length > ids.length ? ` and ${named.length - ids.length} more` : "";
  const message = `${what} is the name of ${named.length} keys: ${ids.join(", ")}${more}`;
  throw new SandboxError("invalid_argument", message, {
    hint: "name the key by its id, or add --team TEAM; key list shows all keys",
  });
}

/** Knows which keys open the service, and for whom. */
export interface KeyCheck {
  /** Undefined for what is no key here. */
  teamOf(key: string): string | undefined;
  /** The keys that were given and not made: nothing is known of their shape. */
  readonly given: readonly string[];
  /** Of all keys that were made, each once. */
  teams(): readonly string[];
  /** Whether a team besides the first one has a key. */
  readonly isShared: () => boolean;
  /** The key of the service itself for a team, which counts until the process ends. */
  issue(team: string): string;
}

/**
 * Accepts the stored keys, read anew each time so that a revocation counts at once, and the given
 * ones, which are compared as hashes and belong to the first team.
 */
export function createKeyCheck(
  store: { readonly keys: Pick<Store["keys"], "getByHash" | "teams"> },
  given: readonly string[],
): KeyCheck {
  const teams = new Map(given.map((key) => [sha256Hex(key), DEFAULT_TEAM]));
  const issued = new Map<string, string>();
  return {
    given,
    teamOf(key) {
      // Found by hash: how long that takes tells nothing about the key.
      const hash = sha256Hex(key);
      const known = teams.get(hash);
      if (known !== undefined || !KEY_PATTERN.test(key)) return known;
      return store.keys.getByHash(hash)?.team;
    },
    teams: () => store.keys.teams(),
    isShared: () => store.keys.teams().some((team) => team !== DEFAULT_TEAM),
    issue(team) {
      const key = issued.get(team) ?? newKey();
      issued.set(team, key);
      teams.set(sha256Hex(key), team);
      return key;
    },
  };
}
