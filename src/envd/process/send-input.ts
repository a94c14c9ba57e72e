/** SendInput: bytes for a process's standard input, written before the reply. */

import type { HandlerContext } from "@connectrpc/connect";
import type { SendInputRequest } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";
import { deliverInput } from "./deliver.ts";

/** @throws SandboxError not_found, internal, unimplemented, resource_exhausted */
export async function sendInput(
  request: SendInputRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  const process = originOf(context).daemon.processes.find(request.process);
  await deliverInput(process, request.input, context.signal);
  return {};
}
