/** What a later process must know of a running container: one small file in its folder. */

import { join } from "node:path";
import { readIfThere, readKernelFile, writeDurably, writeWhole } from "../../common/files.ts";
import { tryParseJson } from "../../common/json.ts";
import { isRootless } from "../../common/privilege.ts";
import { z } from "../../common/schema.ts";
import { ISOLATION_LEVELS } from "../engine.ts";

export const RECORD_NAME = "container.json";
/** Number and start of the first process in plain text, for `user-namespace.pl`. */
export const PROCESS_NAME = "process";

const recordSchema = z.object({
  id: z.string(),
  /** PID 1 of the container, as the host sees it. */
  pid: z.int().positive(),
  /** Its start time in clock ticks: tells it from a later process with the same number. */
  startTicks: z.string(),
  idBase: z.int().positive(),
  /** The first id of the files on its disk, where the disk began as the copy of another one. */
  diskIdBase: z.int().positive().optional(),
  /** Whether it was halted on purpose: then its folder with its disk is all there is. */
  isHalted: z.boolean().default(false),
  /**
   * Of a halted one whose memory is beside its disk. `begun`: programs may have gone on from it, and
   * then it is no longer that of the files.
   */
  memory: z.enum(["saved", "begun"]).optional(),
  /** The boot of the machine whose memory may have a part of a halted container's disk. */
  unsyncedSince: z.string().optional(),
  /** Whether the disk has lost what programs wrote in this run; no process says any more that it is there. */
  hasLostWrites: z.boolean().optional(),
  level: z.enum(ISOLATION_LEVELS),
  /** The name of its daemon's folder; empty in records that were written before it was kept. */
  daemon: z.string().default(""),
  /** What connections to the daemon begin with, where programs of the container can make some too. */
  secret: z.string().optional(),
});

export type ContainerRecord = z.infer<typeof recordSchema>;

/** Writes the record; from then on another process can adopt the container. */
export async function writeRecord(directory: string, record: ContainerRecord): Promise<void> {
  if (isRootless() && !record.isHalted) {
    await writeWhole(join(directory, PROCESS_NAME), `${record.pid} ${record.startTicks}\n`);
  }
  // A container that runs ends with the machine; one that was halted is found again after it.
  const write = record.isHalted ? writeDurably : writeWhole;
  await write(join(directory, RECORD_NAME), JSON.stringify(record));
}

/** The same record of a halted container, whose disk is about to be written to. */
export function withUnsyncedDisk(record: ContainerRecord): ContainerRecord {
  return { ...record, isHalted: true, unsyncedSince: readBoot() };
}

/** Whether the machine went down before all of the disk was on disk: a part of it may be missing. */
export function isDiskLost({ unsyncedSince }: ContainerRecord): boolean {
  return unsyncedSince !== undefined && unsyncedSince !== readBoot();
}

/** Of this start of the machine; empty where the kernel does not tell it. */
export function readBoot(): string {
  return readKernelFile("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
}

/**
 * The record of a container whose start was finished; undefined for any other folder, and for half a
 * record, as a power cut may leave of a container that ran.
 */
export async function readRecord(directory: string): Promise<ContainerRecord | undefined> {
  const text = await readIfThere(join(directory, RECORD_NAME));
  return recordSchema.safeParse(tryParseJson(text ?? "")).data;
}
