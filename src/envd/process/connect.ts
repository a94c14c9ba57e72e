/** Connect: joins the stream of a process, or learns how one has just ended. */

import type { HandlerContext } from "@connectrpc/connect";
import type { ConnectRequest } from "../../gen/process/process_pb.ts";
import { frameSinkOf } from "../../rpc/frame-sink.ts";
import type { ProcessEvent } from "../../rpc/process-events.ts";
import { originOf } from "../call.ts";
import { follow } from "./follow.ts";

/** @throws SandboxError not_found, unimplemented without a selector, resource_exhausted */
export async function* connect(
  request: ConnectRequest,
  context: HandlerContext,
): AsyncGenerator<{ event: ProcessEvent }> {
  const { processes } = originOf(context).daemon;
  const ended = processes.findEnded(request.process);
  if (ended === undefined) {
    const running = processes.find(request.process);
    yield* follow(running.pid, running.subscribe(frameSinkOf(context).codec), context);
    return;
  }
  yield { event: { event: { case: "start", value: { pid: ended.pid } } } };
  yield { event: { event: { case: "end", value: ended.outcome } } };
}
