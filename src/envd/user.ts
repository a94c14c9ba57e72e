/**
 * The accounts of the sandbox, read from its own /etc. These files belong to sandboxed code: every
 * line is parsed as hostile, and a file that is not a small regular one counts as empty.
 */

import { constants, statSync, type BigIntStats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { SandboxError, causeCode } from "../common/errors.ts";

export interface User {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  /** Absolute. */
  readonly home: string;
  /** Every group of the user, the primary one included. */
  readonly groups: readonly number[];
}

export interface Accounts {
  readonly users: ReadonlyMap<string, User>;
  readonly userNames: ReadonlyMap<number, string>;
  readonly groupNames: ReadonlyMap<number, string>;
}

/** Where the accounts are read from. */
export interface AccountFiles {
  readonly passwd: string;
  readonly group: string;
}

export interface AccountReader {
  /** The accounts as the files say now; read again only when a file has changed. */
  read(): Promise<Accounts>;
}

/** A file of accounts is cut here: a thousand users fill a tenth of it. */
const MAX_ACCOUNT_FILE_BYTES = 1_048_576;
/** The largest id that a file system stores; the one above it means "none". */
const MAX_ID = 4_294_967_294;
const ID_PATTERN = /^[0-9]{1,10}$/;

interface Snapshot {
  readonly stamp: string;
  readonly text: string;
}

const NOTHING: Snapshot = { stamp: "", text: "" };

/** A reader of accounts that remembers what it parsed last. */
export function createAccountReader(files: AccountFiles): AccountReader {
  let cached: { readonly stamp: string; readonly accounts: Accounts } | undefined;
  return {
    async read() {
      // Every call asks: a way through another thread would take longer than all the rest of it.
      const stamp = `${stampOf(files.passwd)}|${stampOf(files.group)}`;
      if (cached?.stamp === stamp) return cached.accounts;
      const [passwd, group] = await Promise.all([snapshot(files.passwd), snapshot(files.group)]);
      const accounts = parseAccounts(passwd.text, group.text);
      cached = { stamp: `${passwd.stamp}|${group.stamp}`, accounts };
      return accounts;
    },
  };
}

/** What is known of a file without opening it; the same as that of its snapshot. */
function stampOf(path: string): string {
  try {
    return toStamp(statSync(path, { bigint: true }));
  } catch (error) {
    if (causeCode(error) !== undefined) return NOTHING.stamp;
    throw error;
  }
}

/** The time of its last change is the kernel's own: no program can set it back. */
function toStamp(stats: BigIntStats): string {
  if (!stats.isFile()) return NOTHING.stamp;
  return `${stats.dev}:${stats.ino}:${stats.ctimeNs}:${stats.size}`;
}

/** Never waits: a pipe in place of the file would hold a blocking open for ever. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

async function snapshot(path: string): Promise<Snapshot> {
  let handle: FileHandle;
  try {
    handle = await open(path, OPEN_FLAGS);
  } catch (error) {
    // A sandbox without the file has no accounts; that is a state, not a fault of ours.
    if (causeCode(error) !== undefined) return NOTHING;
    throw error;
  }
  try {
    const stats = await handle.stat({ bigint: true });
    if (!stats.isFile()) return NOTHING;
    const buffer = Buffer.alloc(Math.min(Number(stats.size), MAX_ACCOUNT_FILE_BYTES));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
    return { stamp: toStamp(stats), text: buffer.toString("utf8", 0, bytesRead) };
  } finally {
    await handle.close();
  }
}

/** The accounts of the two files; malformed lines are skipped, the first of two equals wins. */
export function parseAccounts(passwd: string, group: string): Accounts {
  const groups = parseGroups(group);
  const users = new Map<string, User>();
  const userNames = new Map<number, string>();
  for (const line of passwd.split("\n")) {
    const [name = "", , uidText = "", gidText = "", , home = ""] = line.split(":");
    const uid = parseId(uidText);
    const gid = parseId(gidText);
    // No path and no variable of an environment can hold a NUL.
    if (name === "" || uid === undefined || gid === undefined || line.includes("\0")) continue;
    if (!userNames.has(uid)) userNames.set(uid, name);
    if (users.has(name)) continue;
    const others = groups.memberships.get(name) ?? [];
    users.set(name, {
      name,
      uid,
      gid,
      home: home.startsWith("/") ? home : "/",
      groups: [...new Set([gid, ...others])],
    });
  }
  return { users, userNames, groupNames: groups.names };
}

function parseGroups(text: string) {
  const names = new Map<number, string>();
  const memberships = new Map<string, number[]>();
  for (const line of text.split("\n")) {
    const [name = "", , gidText = "", members = ""] = line.split(":");
    const gid = parseId(gidText);
    if (name === "" || gid === undefined) continue;
    if (!names.has(gid)) names.set(gid, name);
    for (const member of members.split(",")) {
      if (member === "") continue;
      const known = memberships.get(member) ?? [];
      known.push(gid);
      memberships.set(member, known);
    }
  }
  return { names, memberships };
}

function parseId(text: string): number | undefined {
  if (!ID_PATTERN.test(text)) return undefined;
  const id = Number(text);
  return id <= MAX_ID ? id : undefined;
}

/**
 * The user that a plain HTTP request names.
 * @throws SandboxError invalid_argument without a name, unauthenticated for an unknown one.
 */
export function requireUser(accounts: Accounts, name: string | undefined): User {
  if (name === undefined) throw new SandboxError("invalid_argument", "username not provided");
  const user = accounts.users.get(name);
  if (user === undefined) {
    throw new SandboxError(
      "unauthenticated",
      `error looking up user '${name}': user: unknown user ${name}`,
    );
  }
  return user;
}
