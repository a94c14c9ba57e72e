/** Update: the size of a process's terminal. */

import type { HandlerContext } from "@connectrpc/connect";
import { SandboxError } from "../../common/errors.ts";
import type { UpdateRequest } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";

/** @throws SandboxError not_found, internal for the size of a process without a terminal */
export async function update(
  request: UpdateRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  const process = originOf(context).daemon.processes.find(request.process);
  if (request.pty === undefined) return {};
  if (!process.hasTerminal) {
    throw new SandboxError("internal", "error resizing tty: tty not assigned to process");
  }
  process.resize({ cols: request.pty.size?.cols ?? 0, rows: request.pty.size?.rows ?? 0 });
  return {};
}
