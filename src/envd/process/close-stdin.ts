/** CloseStdin: the process reads an end of file once it has read what was written. */

import type { HandlerContext } from "@connectrpc/connect";
import type { CloseStdinRequest } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";

/** @throws SandboxError not_found, unimplemented */
export async function closeStdin(
  request: CloseStdinRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  originOf(context).daemon.processes.find(request.process).input.close();
  return {};
}
