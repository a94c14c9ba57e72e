/** Whether a folder may be the home: a foreign one must not be changed, whatever command names it. */

import {
  closeSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { isCode, SandboxError } from "./errors.ts";
import { quoteName, quoteUntrusted } from "./untrusted-text.ts";

/** SQLite opens no file whose path has more than 512 bytes, those of its journal included. */
const MAX_HOME_BYTES = 490;

/**
 * Apt and its kin take no such names. U+FFFD stands for bytes that are no UTF-8: the path that was given
 * is not known, and several have the same text.
 */
const REFUSED_CHARACTERS = /[\p{Cc}"\uFFFD]/u;

const DATABASE = "state.db";
const PLACE = "place.json";
const SQLITE_HEADER = "SQLite format 3\0";
const MAX_PLACE_BYTES = 16_384;

/** The database lies beside these in every home that has been used. */
const BESIDE_DATABASE: ReadonlySet<string> = new Set([`${DATABASE}-logs`, "layers", "instances"]);

/** Of every file system of its own, or of one that removes files later. */
const OF_FILE_SYSTEM = /^(?:lost\+found|\.nfs[0-9a-f]+)$/;

const OWN_LOCK =
  /^(?:authority|base|daemon|host|image|image-[0-9a-f]+|instance|interpreter|namespace|probe|reclaim|service|store|volumes)\.lock$/;

/**
 * What a home may have before it has a database, with what is in it. Names that other programs use
 * too, such as `volumes`, are not here: what lies there would be removed as without an owner.
 */
const EARLY: readonly (readonly [name: RegExp, inside?: RegExp])[] = [
  [OF_FILE_SYSTEM],
  [OWN_LOCK],
  [/^(?:probe[0-9]+x[0-9a-f]+|\.share-[0-9a-f-]+(?:\.copy)?)$/],
  [/^(?:namespace(?:\.part)?|engine-probe(?:-runsc)?\.json(?:\..*)?|build-time-[a-z-]+(?:\..*)?)$/],
  [/^ca-.+\.(?:pem|key)(?:\..*)?$/],
  [/^place\.json\.part$/],
  [/^store\.img(?:\..*)?$/],
  [/^store$/, /^(?:disks|snapshots|volumes|lost\+found)$/],
  [/^state\.db(?:-logs)?(?:-wal|-shm|-journal)?$/],
  [/^cache$/, /^v[0-9]+\./],
  [/^programs$/, /^[0-9a-z]/],
  [/^(?:daemon|trust)$/, /^[0-9a-f]{8}/],
  [/^instances$/, /^(?:serve|[0-9a-f]+)$/],
  [/^layers$/, /^(?:base|host|interpreter|image|daemon)-/],
  [/^spool$/, /^(?:local|remote-[0-9a-f]{16}|team-.+)$/],
];

const OF_ANOTHER = "belongs to another user";
const CHOOSE = "choose a new or empty directory, or a home of sandbox-mcp, with --home";

/**
 * The path without links, by which the kernel tells of mounts and claims are compared: a home has one path,
 * whatever leads to it. What is not there yet stays as it is named.
 */
export function withoutLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(withoutLinks(parent), basename(path));
  }
}

/**
 * Refuses what cannot be a home, before anything in it is changed.
 * @throws SandboxError failed_precondition
 */
export function checkHome(path: string): void {
  checkPath(path);
  requireHomeFolder(path);
}

/** The refusal of a home that is not there, for commands that would make it and find nothing in it. */
export function missingHome(path: string): SandboxError | undefined {
  if (!isNothing(path)) return undefined;
  return new SandboxError("failed_precondition", `home ${quoteName(path)}: no such directory`, {
    hint: "name the home of a service with --home",
  });
}

/** Whether it is known that nothing has this name; a link that leads nowhere is something. */
function isNothing(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    // Opening it tells the fault.
    return false;
  }
}

function checkPath(path: string): void {
  if (Buffer.byteLength(path) > MAX_HOME_BYTES) {
    throw new SandboxError("failed_precondition", "home: the path is too long", {
      hint: `choose one of at most ${MAX_HOME_BYTES} bytes with --home`,
    });
  }
  if (REFUSED_CHARACTERS.test(path)) {
    throw new SandboxError("failed_precondition", `home ${quoteUntrusted(path)} cannot be used`, {
      hint: "choose a path of UTF-8 without control characters and quotation marks with --home",
    });
  }
}

/**
 * Refuses a folder that is there, has content and is no home of any version of this program, and one
 * of another user. The home may be a symbolic link to its folder. Nothing is changed.
 * @throws SandboxError failed_precondition
 */
function requireHomeFolder(path: string): void {
  const fault = homeFault(path);
  if (fault === undefined) return;
  throw new SandboxError("failed_precondition", `home ${quoteName(path)} ${fault}`, {
    hint: fault === OF_ANOTHER ? `make this user its owner, or ${CHOOSE}` : CHOOSE,
  });
}

/** Why it cannot be the home; undefined also for what fails by itself where it is made or opened. */
export function homeFault(path: string): string | undefined {
  try {
    const entry = statSync(path, { throwIfNoEntry: false });
    if (entry === undefined) return undefined;
    if (!entry.isDirectory()) return "is no directory";
    const user = process.geteuid?.() ?? entry.uid;
    if (entry.uid !== user && !hasBeenHomeOf(user, path)) return OF_ANOTHER;
    return isHome(path) ? undefined : "is not empty and is no home of sandbox-mcp";
  } catch (error) {
    if (isCode(error, "EACCES", "ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG")) {
      return undefined;
    }
    throw error;
  }
}

/** Earlier versions let root use the folder of another user, as one that a container mounts. */
function hasBeenHomeOf(user: number, path: string): boolean {
  return [PLACE, DATABASE].some(
    (name) => lstatSync(join(path, name), { throwIfNoEntry: false })?.uid === user,
  );
}

function isHome(path: string): boolean {
  const names = readdirSync(path);
  if (names.includes(PLACE) && isPlace(join(path, PLACE))) return true;
  const hasDatabase = names.includes(DATABASE);
  if (hasDatabase && !isDatabase(join(path, DATABASE))) return false;
  if (hasDatabase && names.some((name) => BESIDE_DATABASE.has(name))) return true;
  if (names.every((name) => isEarly(path, name))) return true;
  // Its mark comes before all else that is no early name, and may have come after the list was read.
  return isPlace(join(path, PLACE));
}

function isEarly(path: string, name: string): boolean {
  const row = EARLY.find(([pattern]) => pattern.test(name));
  if (row === undefined) return false;
  const [, inside] = row;
  if (inside === undefined) return true;
  const place = join(path, name);
  const entry = statSync(place, { throwIfNoEntry: false });
  // Another process may have removed it meanwhile.
  if (entry === undefined) return true;
  return entry.isDirectory() && readdirSync(place).every((child) => inside.test(child));
}

/** The mark of a home, also of one that was copied or moved. */
function isPlace(path: string): boolean {
  try {
    const place: unknown = JSON.parse(readStart(path, MAX_PLACE_BYTES));
    const isObject = typeof place === "object" && place !== null;
    return isObject && "id" in place && "path" in place && typeof place.path === "string";
  } catch {
    // No text of ours.
    return false;
  }
}

/** One that was never written to is empty: its maker may have been ended. */
function isDatabase(path: string): boolean {
  const start = readStart(path, SQLITE_HEADER.length);
  return start === "" || start === SQLITE_HEADER;
}

function readStart(path: string, maxBytes: number): string {
  if (!statSync(path).isFile()) return "no file";
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(maxBytes);
    return bytes.toString("utf8", 0, readSync(file, bytes, 0, maxBytes, 0));
  } finally {
    closeSync(file);
  }
}
