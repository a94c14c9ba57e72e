/** What a later process must know of a running container: one small file in its folder. */

import { join } from "node:path";
import { z } from "../common/schema.ts";
import { ISOLATION_LEVELS } from "./engine.ts";
import { readIfThere, writeWhole } from "./files.ts";

export const RECORD_NAME = "container.json";

const recordSchema = z.object({
  id: z.string(),
  /** PID 1 of the container, as the host sees it. */
  pid: z.int().positive(),
  /** Its start time in clock ticks: tells it from a later process with the same number. */
  startTicks: z.string(),
  idBase: z.int().positive(),
  /** Whether it was halted on purpose: then its folder with its disk is all there is. */
  isHalted: z.boolean().default(false),
  level: z.enum(ISOLATION_LEVELS),
});

export type ContainerRecord = z.infer<typeof recordSchema>;

/** Writes the record; from then on another process can adopt the container. */
export async function writeRecord(directory: string, record: ContainerRecord): Promise<void> {
  await writeWhole(join(directory, RECORD_NAME), JSON.stringify(record));
}

/** The record of a container whose start was finished; undefined for any other folder. */
export async function readRecord(directory: string): Promise<ContainerRecord | undefined> {
  const text = await readIfThere(join(directory, RECORD_NAME));
  return text === undefined ? undefined : recordSchema.parse(JSON.parse(text));
}

/** When a process started, in clock ticks since boot; undefined when there is no such process. */
export async function readStartTicks(pid: number): Promise<string | undefined> {
  const text = await readIfThere(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The second field is the program's name in brackets and may hold anything: count from its end.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return fields[STATE_FIELD] === "Z" ? undefined : fields[START_FIELD];
}

/** Fields 3 and 22 of proc_pid_stat(5), counted from the third. */
const STATE_FIELD = 0;
const START_FIELD = 19;
