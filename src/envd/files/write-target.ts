/** Writes one uploaded file in place, with its parents, on behalf of a user. */

import { constants } from "node:fs";
import { open, stat, type FileHandle } from "node:fs/promises";
import { SandboxError, causeCode, errorText } from "../../common/errors.ts";
import { errnoText, fileErrorText, isDiskFull } from "../errno.ts";
import { canChangeOwner, ensureDirectories } from "../owner.ts";
import { parentPath } from "../path.ts";
import type { User } from "../user.ts";

export interface WriteTarget {
  /** Absolute. */
  readonly path: string;
  readonly user: User;
  /** The length that the request announced, for the message of a full disk. */
  readonly announced: string | undefined;
}

/** Never waits for the other end of a pipe, never takes a terminal. */
const OPEN_FLAGS =
  constants.O_WRONLY |
  constants.O_CREAT |
  constants.O_TRUNC |
  constants.O_NONBLOCK |
  constants.O_NOCTTY;
const FILE_MODE = 0o666;

/**
 * Replaces the content of a file; returns whether it is a new one. Not atomic: what was written
 * stays when the rest fails.
 * @throws SandboxError invalid_argument for a folder, resource_exhausted for a full disk, internal
 */
export async function writeTarget(
  target: WriteTarget,
  body: AsyncIterator<Buffer>,
): Promise<boolean> {
  const { path, user } = target;
  try {
    await ensureDirectories(parentPath(path), user);
  } catch (error) {
    const message = `error ensuring directories: ${errorText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  const isNew = await requireNoDirectory(path);
  await using file = await openTarget(path);
  await giveTo(file, user);
  for (let next = await body.next(); next.done !== true; next = await body.next()) {
    await writeAll(file, next.value, target);
  }
  return isNew;
}

/** True when nothing is there yet. */
async function requireNoDirectory(path: string): Promise<boolean> {
  const stats = await stat(path).catch((error: unknown) => {
    if (causeCode(error) === "ENOENT") return undefined;
    const message = `error getting file info: ${fileErrorText("stat", path, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  });
  if (stats?.isDirectory()) {
    throw new SandboxError("invalid_argument", `path is a directory: ${path}`);
  }
  return stats === undefined;
}

async function openTarget(path: string): Promise<FileHandle> {
  try {
    return await open(path, OPEN_FLAGS, FILE_MODE);
  } catch (error) {
    const text = fileErrorText("open", path, error);
    if (isDiskFull(error)) {
      const message = `not enough inodes available: ${text}`;
      throw new SandboxError("resource_exhausted", message, { cause: error });
    }
    throw new SandboxError("internal", `error opening file: ${text}`, { cause: error });
  }
}

/** Makes the user the owner of an open file, whatever its name leads to by now. */
export async function giveTo(file: FileHandle, user: User): Promise<void> {
  if (!canChangeOwner()) return;
  try {
    await file.chown(user.uid, user.gid);
  } catch (error) {
    const message = `error changing file ownership: ${errnoText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

async function writeAll(file: FileHandle, chunk: Buffer, target: WriteTarget): Promise<void> {
  try {
    for (let offset = 0; offset < chunk.length;) {
      const { bytesWritten } = await file.write(chunk, offset);
      offset += bytesWritten;
    }
  } catch (error) {
    if (!isDiskFull(error)) {
      const text = fileErrorText("write", target.path, error);
      throw new SandboxError("internal", `error writing file: ${text}`, { cause: error });
    }
    const { announced } = target;
    const attempt = announced === undefined ? "" : `attempted to write ${announced} bytes: `;
    const message = `${attempt}not enough disk space available`;
    throw new SandboxError("resource_exhausted", message, { cause: error });
  }
}
