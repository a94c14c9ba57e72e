/** One item of input for one process, as SendInput and StreamInput both carry it. */

import { SandboxError } from "../../common/errors.ts";
import type { ProcessInput } from "../../gen/process/process_pb.ts";
import type { RunningProcess } from "./child.ts";

/** @throws SandboxError internal, unimplemented, resource_exhausted */
export async function deliverInput(
  process: RunningProcess,
  input: ProcessInput | undefined,
  signal: AbortSignal,
): Promise<void> {
  const item = input?.input;
  if (item?.case === undefined) throw new SandboxError("unimplemented", "invalid input type <nil>");
  if (item.case === "stdin" && process.hasTerminal) {
    const message =
      "error writing to stdin: tty assigned to process — input should be written to the pty, not the stdin";
    throw new SandboxError("internal", message);
  }
  if (item.case === "pty" && !process.hasTerminal) {
    const message =
      "error writing to tty: tty not assigned to process — input should be written to the stdin, not the tty";
    throw new SandboxError("internal", message);
  }
  return process.input.write(item.value, signal);
}
