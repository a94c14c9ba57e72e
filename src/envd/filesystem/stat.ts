/** Stat: what is at a path, links included even when they lead nowhere. */

import type { HandlerContext } from "@connectrpc/connect";
import { isCode, SandboxError } from "../../common/errors.ts";
import type { StatRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf, pathFor, userOf } from "../call.ts";
import { fileErrorText } from "../errno.ts";
import { describeEntry, type Entry } from "./entry.ts";

/** @throws SandboxError not_found, internal */
export async function stat(
  request: StatRequest,
  context: HandlerContext,
): Promise<{ entry: Entry }> {
  const origin = originOf(context);
  const path = await pathFor(origin.daemon, await userOf(origin), request.path);
  try {
    return { entry: await describeEntry(path, origin.daemon) };
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    const text = fileErrorText("lstat", path, error);
    if (isCode(error, "ENOENT")) {
      throw new SandboxError("not_found", `file not found: ${text}`, { cause: error });
    }
    throw new SandboxError("internal", `error getting file info: ${text}`, { cause: error });
  }
}
