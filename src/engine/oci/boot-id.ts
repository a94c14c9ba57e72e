/** The boot id that programs of a container read: one for each start, never that of the machine. */

import type { ContainerSpec } from "../engine.ts";
import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";
import { stageOf } from "../storage/rootfs.ts";

const TIMEOUT_MS = 10_000;

export interface BootIdOptions {
  readonly perlDirectory: string;
  readonly spec: Pick<ContainerSpec, "directory" | "bootId">;
  /** Its first process, as the host counts. */
  readonly pid: number;
}

/**
 * Covers `/proc/sys/kernel/random/boot_id` of a container; before any program of it runs.
 * @throws SandboxError unavailable, canceled, deadline_exceeded
 */
export async function coverBootId(options: BootIdOptions, signal: AbortSignal): Promise<void> {
  const { perlDirectory, spec, pid } = options;
  const { directory, bootId } = spec;
  if (bootId === undefined) return;
  const stage = stageOf(directory).directory;
  const words = [process.arch, String(process.pid), String(pid), stage, bootId];
  const command = perlCommand(perlDirectory, "boot-id", words);
  await runProgram(command, { signal, timeoutMs: TIMEOUT_MS });
}
