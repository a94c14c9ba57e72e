/** Update: the size of a terminal; no process of this daemon has one. */

import type { HandlerContext } from "@connectrpc/connect";
import { SandboxError } from "../../common/errors.ts";
import type { UpdateRequest } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";

/** @throws SandboxError not_found, internal for a size */
export async function update(
  request: UpdateRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  originOf(context).daemon.processes.find(request.process);
  if (request.pty !== undefined) {
    throw new SandboxError("internal", "error resizing tty: tty not assigned to process");
  }
  return {};
}
