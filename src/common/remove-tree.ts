/**
 * Removes a tree of any shape that a kernel can hold. The walk goes by open folders, never by long
 * paths: each step names one entry below `/proc/self/fd`, so depth and length of paths do not matter,
 * two folders are open at a time, and no link is followed, whatever changes in the tree meanwhile.
 */

import { constants, readFileSync, type BigIntStats } from "node:fs";
import { chmod, open, opendir, rmdir, unlink, type FileHandle } from "node:fs/promises";
import { causeCode, isCode } from "./errors.ts";

/** Entries that are removed at once; more would only queue for the threads of the file system. */
const BATCH = 64;
/** Names of folders that are kept of one reading; a folder with more is read again. */
const MAX_PENDING = 1_024;
/** A process may fill a folder while it is emptied; after so many rounds it is left. */
const MAX_RETRIES = 8;
/** Entries that cannot be removed; beyond this the rest is not tried. */
const MAX_FAILURES = 10_000;

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** O_PATH, which Node does not name; it is the same on every architecture. */
const PATH_FLAGS = 0x20_0000 | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const OWNER_MODE = 0o700;

/** Names are bytes; each becomes one character and back. */
const NAME_ENCODING = "latin1";

/** What `unlink` says of a folder, and `rmdir` of one that is not empty. */
const IS_FOLDER: ReadonlySet<string> = new Set(["EISDIR", "EPERM"]);
const NOT_EMPTY: ReadonlySet<string> = new Set(["ENOTEMPTY", "EEXIST"]);
/** The entry is no folder any more. */
const REPLACED: ReadonlySet<string> = new Set(["ENOTDIR", "ELOOP"]);

export interface RemovalOptions {
  /** Ends the removal between two steps. */
  readonly signal?: AbortSignal;
}

/**
 * Removes what is at a path, with everything below it; nothing there is a success. What is mounted
 * in the tree stays, and so does what the kernel refuses to remove; the rest goes all the same.
 * @throws Error the first fault of the file system, once all else was removed.
 */
export async function removeTree(
  path: string | Buffer,
  options: RemovalOptions = {},
): Promise<void> {
  const bytes = Buffer.from(path);
  if (await removeLeaf(bytes)) return;
  const folder = await openFolder(bytes);
  if (folder === undefined) return;
  await new Removal(options).empty(folder);
  await removeFolder(bytes);
}

/** A folder on the way from the top to the one that is being emptied. */
interface Level {
  /** Its name in the one above. */
  readonly name: string;
  /** Device and inode: after a way back up it is the same folder or another one. */
  readonly id: string;
  /** Folders in it that are still to be emptied. */
  readonly pending: string[];
  /** Whether its last reading left folders out. */
  hasMore: boolean;
  /** Names that are passed over, and how often a name was tried. */
  readonly failed: Set<string>;
  readonly tries: Map<string, number>;
}

class Removal {
  readonly #signal: AbortSignal | undefined;
  readonly #levels: Level[] = [];
  #mount = "";
  #failures = 0;
  #fault: unknown;

  constructor({ signal }: RemovalOptions) {
    this.#signal = signal;
  }

  /** Closes the folder in the end. */
  async empty(top: FileHandle): Promise<void> {
    let current = top;
    try {
      this.#mount = mountOf(top);
      this.#levels.push(await levelOf(top, ""));
      for (let level = this.#levels.at(-1); level !== undefined; level = this.#levels.at(-1)) {
        this.#signal?.throwIfAborted();
        if (level.pending.length === 0 && level.hasMore) await this.#read(current, level);
        const name = level.pending.pop();
        const next =
          name === undefined ? await this.#leave(current) : await this.#enter(current, level, name);
        if (next === undefined) continue;
        await current.close();
        current = next;
      }
    } finally {
      await current.close();
    }
    if (this.#failures > 0) throw this.#fault;
  }

  /** Removes all but folders that are not empty, which it notes. */
  async #read(folder: FileHandle, level: Level): Promise<void> {
    level.hasMore = false;
    const batch: Promise<void>[] = [];
    const entries = await opendir(pathOf(folder), { encoding: NAME_ENCODING, bufferSize: 256 });
    for await (const entry of entries) {
      if (level.failed.has(entry.name)) continue;
      if (level.pending.length + batch.length >= MAX_PENDING) {
        level.hasMore = true;
        break;
      }
      batch.push(
        this.#removeEntry(folder, level, { name: entry.name, isFolder: entry.isDirectory() }),
      );
      if (batch.length >= BATCH) {
        await Promise.all(batch.splice(0));
        this.#signal?.throwIfAborted();
      }
    }
    await Promise.all(batch);
  }

  async #removeEntry(
    folder: FileHandle,
    level: Level,
    { name, isFolder }: { readonly name: string; readonly isFolder: boolean },
  ): Promise<void> {
    const path = childOf(folder, name);
    try {
      const isGone = isFolder ? await removeIfEmpty(path) : await removeLeaf(path);
      if (!isGone) level.pending.push(name);
    } catch (error) {
      this.#note(level, name, error);
    }
  }

  /** The folder of this name, opened; undefined when there is nothing to go into. */
  async #enter(folder: FileHandle, level: Level, name: string): Promise<FileHandle | undefined> {
    const path = childOf(folder, name);
    let child: FileHandle | undefined;
    try {
      child = await openFolder(path);
      if (child === undefined) return undefined;
      if (mountOf(child) !== this.#mount)
        throw fileFault("EBUSY", "something is mounted in the tree");
      this.#levels.push(await levelOf(child, name));
      return child;
    } catch (error) {
      await child?.close();
      if (isCode(error, ...REPLACED)) this.#again(level, name, error);
      else this.#note(level, name, error);
      return undefined;
    }
  }

  /** Goes back up from a folder that is done, and removes it; undefined at the top. */
  async #leave(folder: FileHandle): Promise<FileHandle | undefined> {
    const done = this.#levels.pop();
    const level = this.#levels.at(-1);
    if (done === undefined || level === undefined) return undefined;
    const parent = await open(Buffer.from(`${pathOf(folder)}/..`), FOLDER_FLAGS);
    if (idOf(await parent.stat({ bigint: true })) !== level.id) {
      await parent.close();
      throw fileFault("EBUSY", "a folder was moved while it was removed");
    }
    try {
      if (!(await removeIfEmpty(childOf(parent, done.name)))) {
        if (done.failed.size > 0) level.failed.add(done.name);
        else this.#again(level, done.name, fileFault("ENOTEMPTY", "a folder was filled meanwhile"));
      }
    } catch (error) {
      this.#note(level, done.name, error);
    }
    return parent;
  }

  /** It was changed meanwhile. */
  #again(level: Level, name: string, error: unknown): void {
    const tries = (level.tries.get(name) ?? 0) + 1;
    level.tries.set(name, tries);
    if (tries >= MAX_RETRIES) this.#note(level, name, error);
    // What it is now is looked at anew.
    else level.hasMore = true;
  }

  #note(level: Level, name: string, error: unknown): void {
    this.#fault ??= error;
    this.#failures += 1;
    level.failed.add(name);
    if (this.#failures > MAX_FAILURES) throw this.#fault;
  }
}

async function levelOf(folder: FileHandle, name: string): Promise<Level> {
  const entry = await folder.stat({ bigint: true });
  // Who is not root needs these to read a folder and to change it.
  if (process.geteuid?.() !== 0 && (Number(entry.mode) & OWNER_MODE) !== OWNER_MODE) {
    await folder.chmod(OWNER_MODE);
  }
  const id = idOf(entry);
  return { name, id, pending: [], hasMore: true, failed: new Set(), tries: new Map() };
}

function idOf({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

/** A folder without links on its last component; undefined when it is gone. */
async function openFolder(path: Buffer): Promise<FileHandle | undefined> {
  try {
    return await open(path, FOLDER_FLAGS);
  } catch (error) {
    const code = causeCode(error);
    if (code === "ENOENT") return undefined;
    if (code !== "EACCES") throw error;
    return openUnreadable(path);
  }
}

/** Its owner may give himself the right to read it. */
async function openUnreadable(path: Buffer): Promise<FileHandle> {
  const place = await open(path, PATH_FLAGS);
  try {
    // This very folder: a path could have become another one's meanwhile.
    await chmod(pathOf(place), OWNER_MODE);
    return await open(Buffer.from(`${pathOf(place)}/.`), FOLDER_FLAGS);
  } finally {
    await place.close();
  }
}

/** Says whether it is gone; else it is a folder. */
async function removeLeaf(path: Buffer): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    const code = causeCode(error) ?? "";
    if (code === "ENOENT") return true;
    if (!IS_FOLDER.has(code)) throw error;
    return removeFolderLike(path, error);
  }
}

/** EPERM is said of folders by some file systems, and of files that may not be removed by all. */
async function removeFolderLike(path: Buffer, fault: unknown): Promise<boolean> {
  try {
    return await removeIfEmpty(path);
  } catch (error) {
    throw isCode(error, "ENOTDIR") ? fault : error;
  }
}

/** Says whether it is gone; else there is something in it. */
async function removeIfEmpty(path: Buffer): Promise<boolean> {
  try {
    await rmdir(path);
    return true;
  } catch (error) {
    const code = causeCode(error) ?? "";
    if (code === "ENOENT") return true;
    if (NOT_EMPTY.has(code)) return false;
    throw error;
  }
}

async function removeFolder(path: Buffer): Promise<void> {
  if (!(await removeIfEmpty(path))) throw fileFault("ENOTEMPTY", "a folder was filled meanwhile");
}

/** Which mount a folder belongs to: another one of the same disk has another number. */
function mountOf({ fd }: FileHandle): string {
  const text = readFileSync(`/proc/self/fdinfo/${fd}`, "utf8");
  return /^mnt_id:\s*(\d+)$/m.exec(text)?.[1] ?? "";
}

function pathOf({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

function childOf(folder: FileHandle, name: string): Buffer {
  return Buffer.concat([Buffer.from(`${pathOf(folder)}/`), Buffer.from(name, NAME_ENCODING)]);
}

function fileFault(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}
