/** What the kernel counts of a process on this machine: proc_pid_stat(5). */

import { readKernelFile } from "../../common/files.ts";

/** Fields 22, and 14 to 17, of proc_pid_stat(5), counted from the third. */
const START_FIELD = 19;
const TIME_FIELDS = { first: 11, end: 15 } as const;

/** When a process started, in clock ticks since boot; undefined when there is no such process. */
export function readStartTicks(pid: number): string | undefined {
  return readStat(pid)?.startTicks;
}

interface ProcessStat {
  /** `R`, `S`, `T` and so on. */
  readonly state: string;
  readonly parent: number;
  readonly startTicks: string;
  /** Processor time, that of ended children too. */
  readonly cpuTicks: number;
}

/** What the kernel counts of a process; undefined when there is none, or when it has ended. */
export function readStat(pid: number): ProcessStat | undefined {
  const text = readKernelFile(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The second field is the program's name in brackets and may hold anything: count from its end.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state = "Z", parent] = fields;
  if (state === "Z" || state === "X") return undefined;
  const times = fields.slice(TIME_FIELDS.first, TIME_FIELDS.end).map(Number);
  const cpuTicks = times.reduce((sum, ticks) => sum + ticks, 0);
  return { state, parent: Number(parent), startTicks: fields[START_FIELD] ?? "", cpuTicks };
}
