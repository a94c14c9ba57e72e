/** RemoveWatcher: ends a kept watch. */

import type { HandlerContext } from "@connectrpc/connect";
import type { RemoveWatcherRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf } from "../call.ts";

/** @throws SandboxError not_found, also for a watch that was removed before. */
export async function removeWatcher(
  request: RemoveWatcherRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  originOf(context).daemon.watchers.remove(request.watcherId);
  return {};
}
