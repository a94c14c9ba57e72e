/** SendSignal: SIGTERM or SIGKILL for the process itself; its children are its own affair. */

import type { HandlerContext } from "@connectrpc/connect";
import { SandboxError } from "../../common/errors.ts";
import { Signal, type SendSignalRequest } from "../../gen/process/process_pb.ts";
import { originOf } from "../call.ts";

const NAMES: Readonly<Record<number, "SIGTERM" | "SIGKILL">> = {
  [Signal.SIGTERM]: "SIGTERM",
  [Signal.SIGKILL]: "SIGKILL",
};

/** @throws SandboxError not_found, invalid_argument, internal */
export async function sendSignal(
  request: SendSignalRequest,
  context: HandlerContext,
): Promise<Record<string, never>> {
  const process = originOf(context).daemon.processes.find(request.process);
  const name = NAMES[request.signal];
  if (name === undefined) {
    const given = request.signal === Signal.UNSPECIFIED ? "SIGNAL_UNSPECIFIED" : request.signal;
    throw new SandboxError("invalid_argument", `invalid signal: ${given}`);
  }
  process.signal(name);
  // Who asks next finds no process.
  if (name === "SIGKILL") await process.waitForExit();
  return {};
}
