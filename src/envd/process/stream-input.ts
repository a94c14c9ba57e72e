/** StreamInput: many pieces of input in one call, each written before the next is read. */

import type { HandlerContext } from "@connectrpc/connect";
import { SandboxError } from "../../common/errors.ts";
import type { StreamInputRequest } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";
import type { RunningProcess } from "./child.ts";
import { deliverInput } from "./deliver.ts";

/** @throws SandboxError not_found, invalid_argument, internal, unimplemented */
export async function streamInput(
  requests: AsyncIterable<StreamInputRequest>,
  context: HandlerContext,
): Promise<Record<string, never>> {
  const { processes } = originOf(context).daemon;
  let process: RunningProcess | undefined;
  for await (const { event } of requests) {
    if (event.case === "start") {
      process = processes.find(event.value.process);
    } else if (event.case === "data") {
      if (process === undefined) {
        throw new SandboxError("invalid_argument", "input data came before the start event");
      }
      await deliverInput(process, event.value.input, context.signal);
    } else if (event.case === undefined) {
      throw new SandboxError("unimplemented", "invalid event type <nil>");
    }
  }
  return {};
}
