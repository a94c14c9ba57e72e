/**
 * Uploads that replace a known content alone: two clients that change one file at the same moment must
 * not lose the change of either.
 */

import { createHash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { posix } from "node:path";
import { isCode, SandboxError } from "../../common/errors.ts";
import type { Turns } from "../../common/turns.ts";
import { fileErrorText } from "../errno.ts";
import { open, stat } from "../file-system.ts";
import { baseName } from "../path.ts";

export interface ContentCondition {
  /** SHA-256 in hex; undefined where the file is replaced whatever it holds. */
  readonly contentHash: string | undefined;
  /** As errors name it. */
  readonly path: string;
}

const CHUNK_BYTES = 65_536;
/** A device, or a file that grows as fast as it is read, would never end. */
const MAX_BYTES = 67_108_864;

/** The file that an upload replaces. */
export interface Replaced {
  readonly turns: Turns;
  readonly place: string;
  /** What is there; undefined for nothing. */
  readonly known: Stats | undefined;
}

/**
 * Does the work of an upload while the file at a place holds what the condition names; other uploads
 * with a condition for that file wait meanwhile.
 * @throws SandboxError failed_precondition when it holds something else, or is not there;
 * invalid_argument for a device, and for a file that is too large
 */
export async function whileContent<T>(
  { contentHash, path }: ContentCondition,
  { turns, place, known }: Replaced,
  work: () => Promise<T>,
): Promise<T> {
  if (contentHash === undefined) return work();
  return turns.run(await fileOf(place, known), async () => {
    if ((await hashOf(place)) === contentHash) return work();
    throw contentChanged(path);
  });
}

/**
 * The same for all paths of a file: a directory may be mounted at several places. A file with several
 * names is written in place, and stays the same whichever of them is used.
 */
async function fileOf(place: string, known: Stats | undefined): Promise<string> {
  if (known !== undefined && known.nlink > 1) return `${known.dev}:${known.ino}`;
  try {
    const folder = await stat(posix.dirname(place));
    return `${folder.dev}:${folder.ino}/${baseName(place)}`;
  } catch {
    // It is gone: the comparison tells so.
    return place;
  }
}

/** For a file that holds something else than an upload wants to replace, or is gone. */
export function contentChanged(path: string): SandboxError {
  return new SandboxError("failed_precondition", `content of file has changed: ${path}`);
}

/** Undefined where there is no file. */
async function hashOf(place: string): Promise<string | undefined> {
  const hash = createHash("sha256");
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  try {
    await using file = await open(place, constants.O_RDONLY | constants.O_NONBLOCK, 0);
    if (!(await file.stat()).isFile()) throw refusal(`is not a regular file: ${place}`);
    for (let size = 0; size <= MAX_BYTES;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) return hash.digest("hex");
      hash.update(buffer.subarray(0, bytesRead));
      size += bytesRead;
    }
    throw refusal(`has more than ${MAX_BYTES} bytes: ${place}`);
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    if (error instanceof SandboxError) throw error;
    const message = `error reading file: ${fileErrorText("read", place, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

function refusal(reason: string): SandboxError {
  return new SandboxError("invalid_argument", `content cannot be compared: path ${reason}`);
}
