/**
 * Writes one uploaded file, with its parents, on behalf of a user. A regular file appears, or gets
 * its new content, at once: it is filled under another name and renamed. What a rename cannot
 * replace is written in place.
 */

import { constants, type Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { posix } from "node:path";
import { errorText, isCode, SandboxError } from "../../common/errors.ts";
import type { Turns } from "../../common/turns.ts";
import type { Attributes, Metadata } from "../attributes.ts";
import { errnoText, fileErrorText, isDiskFull } from "../errno.ts";
import { access, lstat, open, readlink, realpath, stat } from "../file-system.ts";
import { canChangeOwner, ensureDirectories } from "../owner.ts";
import { namesDirectory, parentPlace, writtenPlace } from "../parent-path.ts";
import { baseName, joinPath } from "../path.ts";
import type { User } from "../user.ts";
import { contentChanged, whileContent } from "./if-content.ts";
import { storeMetadata } from "./metadata.ts";
import type { StagedFile, Staging } from "./staging.ts";

export interface WriteTarget {
  /** Absolute. */
  readonly path: string;
  readonly user: User;
  /** Becomes the file's whole metadata. */
  readonly metadata: ReadonlyMap<string, string>;
  /** The length that the request announced, for the message of a full disk. */
  readonly announced: string | undefined;
  /** What the file must hold when it gets its new content; undefined for anything. */
  readonly contentHash: string | undefined;
}

export interface WriteTools {
  readonly attributes: Attributes;
  readonly staging: Staging;
  /** Of uploads that replace a known content. */
  readonly replacements: Turns;
}

/** Never waits for the other end of a pipe, never takes a terminal. */
const OPEN_FLAGS =
  constants.O_WRONLY |
  constants.O_CREAT |
  constants.O_TRUNC |
  constants.O_NONBLOCK |
  constants.O_NOCTTY;
const FILE_MODE = 0o666;
/** Until it has the mode of what it replaces, which may be closed to others. */
const PRIVATE_MODE = 0o600;
/** What stays of a mode: a change of owner takes set-id bits away. */
const KEPT_MODE = 0o1777;
const MAX_LINKS = 40;
const COPY_BYTES = 1_048_576;
/** The name is a mount point, or is protected in another way; the file itself may be open to us. */
const NOT_RENAMED: ReadonlySet<string> = new Set(["EBUSY", "EXDEV", "EACCES", "EPERM", "EROFS"]);

/**
 * Replaces the content of a file; returns its metadata. Until all of it came nothing changes, and
 * nothing is left when it does not come, unless the file is written in place.
 * @throws SandboxError invalid_argument for a folder, failed_precondition for a content that has
 * changed, resource_exhausted for a full disk, internal
 */
export async function writeTarget(
  wanted: WriteTarget,
  body: AsyncIterator<Buffer>,
  tools: WriteTools,
): Promise<Metadata> {
  const { user } = wanted;
  // The same file for each part.
  const path = await writtenPlace(wanted.path);
  const target = { ...wanted, path };
  // A file that is gone gets no new directory either.
  if (wanted.contentHash !== undefined && (await requireNoDirectory(path)) === undefined) {
    throw contentChanged(path);
  }
  try {
    await ensureDirectories(await parentPlace(path), user);
  } catch (error) {
    const message = `error ensuring directories: ${errorText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  const known = await requireNoDirectory(path);
  const place = known === undefined || known.isFile() ? await placeOf(path) : undefined;
  const replace = async (work: () => Promise<Metadata>): Promise<Metadata> =>
    whileContent(target, { turns: tools.replacements, place: place ?? path, known }, work);
  if (place === undefined) return replace(async () => writeInPlace(target, body, tools));
  if (known !== undefined) await requireWritable(place);
  const opened = await stage(place, known === undefined ? FILE_MODE : PRIVATE_MODE, tools);
  if (opened === undefined) return replace(async () => writeInPlace(target, body, tools));
  await using staged = opened;
  await fill(staged.file, body, target);
  return await replace(async () => publish(staged, { target, place, known }, tools));
}

interface Publication {
  readonly target: WriteTarget;
  readonly place: string;
  readonly known: Stats | undefined;
}

/** Makes the content, which is here already, that of the file. */
async function publish(
  staged: StagedFile,
  publication: Publication,
  tools: WriteTools,
): Promise<Metadata> {
  const { target, place, known } = publication;
  // Other names of the same file would keep the old content.
  if (known !== undefined && known.nlink > 1) return copyInPlace(staged, target, tools);
  const metadata = await dress(staged, publication, tools);
  try {
    await staged.publish(place);
    return metadata;
  } catch (error) {
    if (isCode(error, ...NOT_RENAMED)) return copyInPlace(staged, target, tools);
    throw writeFault(error, target, fileErrorText("rename", target.path, error));
  }
}

/** What is there, links followed; undefined when nothing is there yet. */
async function requireNoDirectory(path: string): Promise<Stats | undefined> {
  const stats = await stat(path).catch((error: unknown) => {
    if (isCode(error, "ENOENT")) return undefined;
    const message = `error getting file info: ${fileErrorText("stat", path, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  });
  if (stats?.isDirectory()) {
    throw new SandboxError("invalid_argument", `path is a directory: ${path}`);
  }
  return stats;
}

/** Where the file stands or will stand, links followed; undefined where they lead nowhere. */
async function placeOf(path: string): Promise<string | undefined> {
  if (namesDirectory(path)) return undefined;
  let current = path;
  for (let links = 0; links <= MAX_LINKS; links += 1) {
    let folder: string;
    try {
      folder = await realpath(posix.dirname(current));
    } catch {
      return undefined;
    }
    const place = joinPath(folder, baseName(current));
    const stats = await lstat(place).catch(() => undefined);
    if (!stats?.isSymbolicLink()) return place;
    const link = await readlink(place).catch(() => undefined);
    if (link === undefined || namesDirectory(link)) return undefined;
    current = link.startsWith("/") ? link : joinPath(folder, link);
  }
  return undefined;
}

/** A file that could not be written in place is not replaced either. */
async function requireWritable(place: string): Promise<void> {
  try {
    await access(place, constants.W_OK);
  } catch (error) {
    const text = fileErrorText("open", place, error);
    throw new SandboxError("internal", `error opening file: ${text}`, { cause: error });
  }
}

/** An empty file beside the place; undefined where its folder takes none. */
async function stage(
  place: string,
  mode: number,
  { staging }: WriteTools,
): Promise<StagedFile | undefined> {
  try {
    return await staging.create(posix.dirname(place), mode);
  } catch (error) {
    if (isDiskFull(error)) throw openFault(place, error);
    // A folder of the kernel, one that is read-only or too deep: the file itself may be open to us.
    return undefined;
  }
}

/** Gives a file that is not visible yet all that its visible one shall have. */
async function dress(
  staged: StagedFile,
  { target, place, known }: Publication,
  { attributes }: WriteTools,
): Promise<Metadata> {
  await changeOwner(staged.file, target.user);
  if (known === undefined && target.metadata.size === 0) return {};
  if (known !== undefined) {
    try {
      await staged.file.chmod(known.mode & KEPT_MODE);
      await attributes.copy(place, staged.path);
    } catch (error) {
      if (error instanceof SandboxError) throw error;
      throw writeFault(error, target, fileErrorText("setxattr", target.path, error));
    }
  }
  return storeMetadata(attributes, { place: staged.path, path: target.path }, target.metadata);
}

/** The content goes into the file that is there, as it comes. */
async function writeInPlace(
  target: WriteTarget,
  body: AsyncIterator<Buffer>,
  { attributes }: WriteTools,
): Promise<Metadata> {
  await using file = await openTarget(target.path);
  await changeOwner(file, target.user);
  await fill(file, body, target);
  return await storeMetadata(
    attributes,
    { place: target.path, path: target.path },
    target.metadata,
  );
}

/** The whole content, which is here already, goes into the file that is there. */
async function copyInPlace(
  staged: StagedFile,
  target: WriteTarget,
  tools: WriteTools,
): Promise<Metadata> {
  return writeInPlace(target, contentOf(staged.file), tools);
}

async function* contentOf(file: FileHandle): AsyncGenerator<Buffer, undefined> {
  for (let position = 0; ;) {
    const buffer = Buffer.alloc(COPY_BYTES);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
    if (bytesRead === 0) return undefined;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

async function openTarget(path: string): Promise<FileHandle> {
  try {
    return await open(path, OPEN_FLAGS, FILE_MODE);
  } catch (error) {
    throw openFault(path, error);
  }
}

function openFault(path: string, error: unknown): SandboxError {
  const text = fileErrorText("open", path, error);
  if (isDiskFull(error)) {
    const message = `not enough inodes available: ${text}`;
    return new SandboxError("resource_exhausted", message, { cause: error });
  }
  return new SandboxError("internal", `error opening file: ${text}`, { cause: error });
}

/** Makes the user the owner of an open file, whatever its name leads to by now. */
export async function changeOwner(file: FileHandle, user: User): Promise<void> {
  if (!canChangeOwner()) return;
  try {
    await file.chown(user.uid, user.gid);
  } catch (error) {
    const message = `error changing file ownership: ${errnoText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

async function fill(
  file: FileHandle,
  body: AsyncIterator<Buffer>,
  target: WriteTarget,
): Promise<void> {
  for (let next = await body.next(); next.done !== true; next = await body.next()) {
    const chunk = next.value;
    try {
      for (let offset = 0; offset < chunk.length;) {
        const { bytesWritten } = await file.write(chunk, offset);
        offset += bytesWritten;
      }
    } catch (error) {
      throw writeFault(error, target, fileErrorText("write", target.path, error));
    }
  }
}

function writeFault(error: unknown, { announced }: WriteTarget, text: string): SandboxError {
  if (!isDiskFull(error)) {
    return new SandboxError("internal", `error writing file: ${text}`, { cause: error });
  }
  const attempt = announced === undefined ? "" : `attempted to write ${announced} bytes: `;
  const message = `${attempt}not enough disk space available`;
  return new SandboxError("resource_exhausted", message, { cause: error });
}
