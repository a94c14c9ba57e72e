/** MakeDir: a folder with its missing parents, owned by the user. */

import type { HandlerContext } from "@connectrpc/connect";
import { errorText, isCode, SandboxError } from "../../common/errors.ts";
import type { MakeDirRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf, pathFor, userOf } from "../call.ts";
import { fileErrorText } from "../errno.ts";
import { stat } from "../file-system.ts";
import { ensureDirectories } from "../owner.ts";
import { readEntry, type Entry } from "./entry.ts";

/** @throws SandboxError already_exists, invalid_argument, internal */
export async function makeDir(
  request: MakeDirRequest,
  context: HandlerContext,
): Promise<{ entry: Entry }> {
  const origin = originOf(context);
  const user = await userOf(origin);
  const path = await pathFor(origin.daemon, user, request.path);
  await requireAbsent(path);
  try {
    await ensureDirectories(path, user);
  } catch (error) {
    const message = `failed to create directory: ${errorText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  try {
    return { entry: await readEntry(path, await origin.daemon.accounts.read()) };
  } catch (error) {
    const message = `failed to stat directory: ${fileErrorText("lstat", path, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

async function requireAbsent(path: string): Promise<void> {
  const stats = await stat(path).catch((error: unknown) => {
    if (isCode(error, "ENOENT")) return undefined;
    const message = `error getting file info: ${fileErrorText("stat", path, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  });
  if (stats === undefined) return;
  if (stats.isDirectory()) {
    throw new SandboxError("already_exists", `directory already exists: ${path}`);
  }
  const message = `path already exists but it is not a directory: ${path}`;
  throw new SandboxError("invalid_argument", message);
}
