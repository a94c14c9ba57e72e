/** GetWatcherEvents: what a kept watch has gathered since the last fetch. */

import type { HandlerContext } from "@connectrpc/connect";
import type { GetWatcherEventsRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf } from "../call.ts";
import type { FileEvent } from "../watch/watchers.ts";

/** Far below the limit of a reply; what is left comes with the next fetch. */
const MAX_REPLY_BYTES = 4_194_304;

/** @throws SandboxError not_found; internal, from then on, when the watch has failed. */
export async function getWatcherEvents(
  request: GetWatcherEventsRequest,
  context: HandlerContext,
): Promise<{ events: FileEvent[] }> {
  const watch = originOf(context).daemon.watchers.find(request.watcherId);
  return { events: watch.events.drain(MAX_REPLY_BYTES) };
}
