/** Remove: whatever is at a path, with everything below it; nothing there is a success. */

import type { HandlerContext } from "@connectrpc/connect";
import { SandboxError } from "../../common/errors.ts";
import { toSystemPath } from "../../common/file-names.ts";
import { removeTree } from "../../common/remove-tree.ts";
import type { RemoveRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf, pathFor, userOf } from "../call.ts";
import { errnoText } from "../errno.ts";

/** @throws SandboxError invalid_argument, internal */
export async function remove(
  request: RemoveRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  const origin = originOf(context);
  const path = await pathFor(origin.daemon, await userOf(origin), request.path);
  if (path === "." || path.endsWith("/.")) {
    const message = `error removing file or directory: RemoveAll ${path}: invalid argument`;
    throw new SandboxError("internal", message);
  }
  try {
    await removeTree(toSystemPath(path), { signal: context.signal });
  } catch (error) {
    const message = `error removing file or directory: ${errnoText(error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  return {};
}
