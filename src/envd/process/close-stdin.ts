/** CloseStdin: the process reads an end of file once it has read what was written. */

import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import type { CloseStdinRequest } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";

/** @throws SandboxError not_found, unimplemented; ConnectError unknown for one with a terminal */
export async function closeStdin(
  request: CloseStdinRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  const process = originOf(context).daemon.processes.find(request.process);
  if (process.hasTerminal) {
    const message =
      "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) instead";
    // The one code of this wire that our own errors do not have.
    throw new ConnectError(message, Code.Unknown);
  }
  process.input.close();
  return {};
}
