/** Move: rename(2), after the destination's parents were made. */

import { posix } from "node:path";
import type { HandlerContext } from "@connectrpc/connect";
import { errorText, isCode, SandboxError } from "../../common/errors.ts";
import { toWirePath } from "../../common/file-names.ts";
import { ifThere } from "../../common/files.ts";
import type { MoveRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf, pathFor, userOf } from "../call.ts";
import { errnoText, fileErrorText } from "../errno.ts";
import { lstat, lstatExactly, removeFile, rename, statExactly } from "../file-system.ts";
import { ensureDirectories } from "../owner.ts";
import { parentPlace, writtenPlace } from "../parent-path.ts";
import { readEntry, type Entry } from "./entry.ts";

/** @throws SandboxError not_found, invalid_argument, internal */
export async function move(
  request: MoveRequest,
  context: HandlerContext,
): Promise<{ entry: Entry }> {
  const origin = originOf(context);
  const user = await userOf(origin);
  const source = await pathFor(origin.daemon, user, request.source);
  const target = await pathFor(origin.daemon, user, request.destination);
  try {
    await ensureDirectories(await parentPlace(target), user);
  } catch (error) {
    const message = `error ensuring directories: ${errorText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  const place = await writtenPlace(target);
  // Read before the rename, so that a move that is refused for them was not done.
  const [metadata = {}] = await origin.daemon.attributes.read([source]);
  await renameStrictly(source, place);
  try {
    const entry = await readEntry(place, await origin.daemon.accounts.read());
    return { entry: { ...entry, metadata, path: toWirePath(target) } };
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    const message = `error getting file info: ${fileErrorText("lstat", target, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

/** rename(2) would replace an empty folder; on this wire no folder is ever replaced. */
async function renameStrictly(source: string, target: string): Promise<void> {
  const subject = `rename ${source} ${target}`;
  try {
    await lstat(source);
    const isFolder = await isDirectory(target);
    if (isFolder) throw new SandboxError("internal", `error renaming: ${subject}: file exists`);
    await rename(source, target);
    await removeOtherName(source, target);
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    const text = `${subject}: ${errnoText(error)}`;
    if (isCode(error, "ENOENT")) {
      throw new SandboxError("not_found", `source file not found: ${text}`, { cause: error });
    }
    throw new SandboxError("internal", `error renaming: ${text}`, { cause: error });
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (isCode(error, "ENOENT")) return false;
    throw error;
  }
}

/**
 * Removes a source that is still there: rename(2) leaves two names of one file as they are. The same
 * name by two paths is no such case.
 */
async function removeOtherName(source: string, target: string): Promise<void> {
  const left = await ifThere(lstatExactly(source));
  const moved = left && (await ifThere(lstatExactly(target)));
  if (left === undefined || left.nlink < 2n) return;
  if (left.dev !== moved?.dev || left.ino !== moved.ino) return;
  if (await isSameName(source, target)) return;
  await removeFile(source);
}

/** A directory may ignore case, and forms of one character: there the name of the file has changed. */
async function isSameName(source: string, target: string): Promise<boolean> {
  const parents = [source, target].map(async (path) => statExactly(posix.dirname(path)));
  const [from, to] = await Promise.all(parents);
  if (from?.dev !== to?.dev || from?.ino !== to?.ino) return false;
  return fold(posix.basename(source)) === fold(posix.basename(target));
}

function fold(name: string): string {
  return name.normalize("NFKD").toUpperCase().toLowerCase();
}
