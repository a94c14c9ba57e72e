/** How a process ended, in the words of the wire. */

import { constants } from "node:os";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ProcessEvent_EndEventSchema } from "../../gen/process/process_pb.ts";

export type Outcome = MessageInitShape<typeof ProcessEvent_EndEventSchema>;

/** Signal numbers in words; others are told by number. */
const SIGNAL_TEXTS: Readonly<Record<number, string>> = {
  1: "hangup",
  2: "interrupt",
  3: "quit",
  4: "illegal instruction",
  5: "trace/breakpoint trap",
  6: "aborted",
  7: "bus error",
  8: "floating point exception",
  9: "killed",
  10: "user defined signal 1",
  11: "segmentation fault",
  12: "user defined signal 2",
  13: "broken pipe",
  14: "alarm clock",
  15: "terminated",
};

/** The outcome for what Node says of a child: its exit code, or the signal that ended it. */
export function toOutcome(code: number | null, signal: NodeJS.Signals | null): Outcome {
  if (code === null) return signalOutcome(signal === null ? 0 : constants.signals[signal]);
  const status = `exit status ${code}`;
  return { exitCode: code, exited: true, status, ...(code !== 0 && { error: status }) };
}

/** The outcome of a process that a signal ended. */
export function signalOutcome(number: number): Outcome {
  const status = `signal: ${SIGNAL_TEXTS[number] ?? `signal ${number}`}`;
  return { exitCode: -1, exited: false, status, error: status };
}
