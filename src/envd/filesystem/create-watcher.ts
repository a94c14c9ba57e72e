/** CreateWatcher: a watch that outlives its request; its events wait to be fetched. */

import type { HandlerContext } from "@connectrpc/connect";
import type { CreateWatcherRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf } from "../call.ts";
import { openWatch } from "./watch-request.ts";

/** @throws SandboxError not_found, invalid_argument, failed_precondition, resource_exhausted, internal */
export async function createWatcher(
  request: CreateWatcherRequest,
  context: HandlerContext,
): Promise<{ watcherId: string }> {
  const watch = await openWatch(request, context);
  if (context.signal.aborted) {
    // No client will learn its name, so none could ever remove it.
    watch[Symbol.dispose]();
    context.signal.throwIfAborted();
  }
  return { watcherId: originOf(context).daemon.watchers.keep(watch) };
}
