/**
 * Uploads on their way: a file under a reserved name beside its target, until it is renamed to it.
 * Neither listings nor watches show such names; what a killed daemon left is removed when its
 * folder is listed or written to.
 */

import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { isFarAway } from "../../common/clock.ts";
import { lstat, open, readNames, removeFile, rename } from "../file-system.ts";
import { joinPath } from "../path.ts";

const NAME_PATTERN = /^\.e2b-upload\.[0-9a-f]{32}$/;
const NAME_BYTES = 16;
const CREATE_FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** An upload ends after a minute without a byte, so a file this old is of a daemon that is gone. */
const STALE_MS = 300_000;
/** Folders that were looked through for leftovers; beyond it the first ones are looked through again. */
const MAX_SWEPT = 1_024;
const MAX_SWEPT_ENTRIES = 20_000;

/** Whether a name is reserved for uploads on their way. */
export function isStagedName(name: string): boolean {
  return NAME_PATTERN.test(name);
}

/** A file that is not visible yet; disposing of it removes it unless it was published. */
export interface StagedFile extends AsyncDisposable {
  readonly path: string;
  readonly file: FileHandle;
  /** Makes it the file at a path of the same folder. @throws the system's error */
  publish(path: string): Promise<void>;
}

/** The uploads of one daemon. */
export class Staging {
  readonly #active = new Set<string>();
  readonly #swept = new Set<string>();

  /** Makes an empty file of a mode, less the umask, in a folder. @throws the system's error */
  async create(folder: string, mode: number): Promise<StagedFile> {
    const name = `.e2b-upload.${randomBytes(NAME_BYTES).toString("hex")}`;
    const path = joinPath(folder, name);
    this.#active.add(path);
    let file: FileHandle;
    try {
      file = await open(path, CREATE_FLAGS, mode);
    } catch (error) {
      this.#active.delete(path);
      throw error;
    }
    let isThere = true;
    const publish = async (target: string): Promise<void> => {
      await rename(path, target);
      isThere = false;
    };
    const end = async (): Promise<void> => {
      await file.close().catch(() => undefined);
      if (isThere) await removeFile(path).catch(() => undefined);
      this.#active.delete(path);
    };
    await this.#sweepOnce(folder);
    return { path, file, publish, [Symbol.asyncDispose]: end };
  }

  /** Removes a file with a reserved name if its daemon is gone. */
  async sweep(path: string): Promise<void> {
    if (this.#active.has(path)) return;
    const stats = await lstat(path).catch(() => undefined);
    if (stats?.isFile() !== true || !isFarAway(stats.mtimeMs, STALE_MS)) return;
    await removeFile(path).catch(() => undefined);
  }

  async #sweepOnce(folder: string): Promise<void> {
    if (this.#swept.has(folder)) return;
    this.#swept.add(folder);
    const [oldest] = this.#swept;
    if (this.#swept.size > MAX_SWEPT && oldest !== undefined) this.#swept.delete(oldest);
    let seen = 0;
    try {
      for await (const name of readNames(folder)) {
        if (isStagedName(name)) await this.sweep(joinPath(folder, name));
        seen += 1;
        if (seen >= MAX_SWEPT_ENTRIES) return;
      }
    } catch {
      // A folder that cannot be read keeps what was left in it; the upload itself goes on.
    }
  }
}
