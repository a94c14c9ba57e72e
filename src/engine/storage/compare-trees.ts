/**
 * Compares the lists of two trees. A sandbox can have millions of files with paths of four kilobytes:
 * the lists are read in pieces, and of the first tree digests alone are remembered.
 */

import { hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { SandboxError } from "../../common/errors.ts";

/**
 * A path, what its file is, its change time and its inode, for `find -fprintf`. The change time is the
 * host's own: nothing inside a sandbox can set it. It is that of the moment at which a layer was written,
 * until a program of the host gives the file another name, such as a backup of hard links.
 */
export const LISTING: string = String.raw`%P\0%y %m %U %G %s %T@\0%C@\0%i\0`;
const FIELDS = 4;
/** Of the first tree: each takes up to 500 bytes of the service's own memory. */
const MAX_KNOWN = 2_500_000;

const PIECE_BYTES = 256 * 1024;
const BATCH_CHARACTERS = 256 * 1024;
const FOLDER = "d ";

/** Files of lists. */
export interface Comparison {
  readonly from: string;
  readonly to: string;
  /** Whether both trees show inodes as they are. */
  readonly hasInodes: boolean;
  /** Written: paths that have to go from the first tree, each ended by NUL. */
  readonly gone: string;
  /** Written: paths that have to come from the second one. */
  readonly changed: string;
}

/** What is known of one path; names are bytes, of which each becomes one character. */
interface Listed {
  readonly path: string;
  /** Its kind, mode, owners, size and time of modification. */
  readonly what: string;
  readonly changedAt: string;
  readonly inode: string;
}

/** Of the first tree: what the file is with its change time, and with its inode. */
interface Known {
  readonly isFolder: boolean;
  readonly byTime: string;
  readonly byInode: string;
  /** What the second tree has there. */
  next: "nothing" | "folder" | "other";
}

/**
 * Writes what has to go from the one tree, and what has to come, for it to become the other.
 * @throws SandboxError failed_precondition where the first one has more than `maxKnown` entries
 */
export async function compareTrees(comparison: Comparison, maxKnown = MAX_KNOWN): Promise<void> {
  const { from, to, hasInodes, gone, changed } = comparison;
  const known = new Map<string, Known>();
  for await (const piece of readListing(from)) {
    for (const entry of piece) known.set(digest(entry.path), toKnown(entry));
    if (known.size > maxKnown) throw tooMany(maxKnown);
  }
  await writeList(changed, to, (entry) => {
    const before = known.get(digest(entry.path));
    if (before !== undefined) before.next = isFolder(entry) ? "folder" : "other";
    return before === undefined || !isSame(before, entry, hasInodes);
  });
  await writeList(gone, from, ({ path }) => {
    const before = known.get(digest(path));
    if (before === undefined) return false;
    if (before.next !== "nothing") return before.isFolder !== (before.next === "folder");
    // It goes with its folder, where that goes or becomes something else.
    const parent = path.slice(0, Math.max(path.lastIndexOf("/"), 0));
    return known.get(digest(parent))?.next === "folder";
  });
}

function tooMany(maxKnown: number): SandboxError {
  const message = `the layers below have more than ${maxKnown} files: nothing above them can become one layer`;
  return new SandboxError("failed_precondition", message, {
    hint: "build the template anew with fewer files",
  });
}

function toKnown(entry: Listed): Known {
  const { what, changedAt, inode } = entry;
  return {
    isFolder: isFolder(entry),
    byTime: digest(`${what} ${changedAt}`),
    byInode: digest(`${what} ${inode}`),
    next: "nothing",
  };
}

function isSame(before: Known, after: Listed, hasInodes: boolean): boolean {
  const { what, changedAt, inode } = after;
  if (before.byTime === digest(`${what} ${changedAt}`)) return true;
  // An overlay numbers its folders itself, each one anew from the same number on.
  return hasInodes && !isFolder(after) && before.byInode === digest(`${what} ${inode}`);
}

function isFolder({ what }: Listed): boolean {
  return what.startsWith(FOLDER);
}

/** Not a part of the text: that would keep all of it in memory. */
function digest(text: string): string {
  return hash("sha256", text, "binary");
}

async function* readListing(path: string): AsyncGenerator<readonly Listed[]> {
  let rest: string[] = [];
  let last = "";
  const pieces = createReadStream(path, { encoding: "latin1", highWaterMark: PIECE_BYTES });
  for await (const piece of pieces) {
    const fields = `${last}${piece}`.split("\0");
    last = fields.pop() ?? "";
    rest.push(...fields);
    const whole = rest.length - (rest.length % FIELDS);
    yield toEntries(rest.slice(0, whole));
    rest = rest.slice(whole);
  }
}

function toEntries(fields: readonly string[]): Listed[] {
  const entries: Listed[] = [];
  for (let at = 0; at < fields.length; at += FIELDS) {
    const [path = "", what = "", changedAt = "", inode = ""] = fields.slice(at, at + FIELDS);
    entries.push({ path, what, changedAt, inode });
  }
  return entries;
}

async function writeList(
  target: string,
  listing: string,
  isChosen: (entry: Listed) => boolean,
): Promise<void> {
  await using file = await open(target, "wx", 0o600);
  let batch = "";
  for await (const piece of readListing(listing)) {
    for (const entry of piece) {
      if (isChosen(entry)) batch += `${entry.path === "" ? "." : `./${entry.path}`}\0`;
    }
    if (batch.length < BATCH_CHARACTERS) continue;
    await file.appendFile(batch, "latin1");
    batch = "";
  }
  await file.appendFile(batch, "latin1");
}
