/** The part that WatchDir and CreateWatcher have in common: whose path, then the watch. */

import type { HandlerContext } from "@connectrpc/connect";
import type { CreateWatcherRequest, WatchDirRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf, pathFor, userOf } from "../call.ts";
import type { FileWatch } from "../watch/watchers.ts";

/** Opens the watch that a request asks for. @throws SandboxError see WatcherRegistry.open */
export async function openWatch(
  request: WatchDirRequest | CreateWatcherRequest,
  context: HandlerContext,
): Promise<FileWatch> {
  const origin = originOf(context);
  const { recursive, includeEntry, allowNetworkMounts } = request;
  const path = await pathFor(origin.daemon, await userOf(origin), request.path);
  return origin.daemon.watchers.open({ path, recursive, includeEntry, allowNetworkMounts });
}
