/** The launch of a container that shares this machine's kernel, by crun or runc. */

import { join } from "node:path";
import { allEnded } from "../../common/concurrency.ts";
import type { ContainerSpec } from "../engine.ts";
import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";
import { stageOf } from "../storage/rootfs.ts";
import type { Launch, LaunchContext, Preparation } from "./launch-context.ts";
import { FOLDER_NAMES } from "./remove-container.ts";
import { runRuntime, writeConfig } from "./run-runtime.ts";
import { verifyGroup } from "./user-cgroup.ts";
import { readLevel, requireLevel, verifyMounts } from "./verify-container.ts";

export function createSharedLaunch(
  context: LaunchContext,
  { claim, disk, diskSteps }: Preparation,
  signal: AbortSignal,
): Launch {
  const { spec, idBase, cgroup } = claim;
  const { runtime, filters, outside, routers } = context;
  const filter = filters.get(runtime);
  return {
    prepare: async () => {
      await allEnded([disk, writeConfig(context, claim, filter), cgroup.make(spec.limits)]);
    },
    run: async () => runRuntime(context, { claim, diskSteps }, signal),
    async prove(pid) {
      const level = readLevel({ pid, idBase });
      requireLevel(level, context.level);
      verifyGroup(pid, cgroup);
      verifyMounts(pid, spec);
      const state = join(spec.directory, FOLDER_NAMES.runtime, "state", spec.id);
      if (filter === undefined) await filters.learn(runtime, state, pid);
      else filters.verify(runtime, pid);
      return { level };
    },
    async connect(record) {
      // Each waits for a program of its own, most of the time.
      await allEnded([
        coverBootId({ ...context, spec, pid: record.pid }, signal),
        routers.setEgress({ directory: spec.directory, record, outside }, spec.egress),
      ]);
    },
  };
}

const BOOT_ID_TIMEOUT_MS = 10_000;

interface BootIdOptions {
  readonly perlDirectory: string;
  readonly spec: Pick<ContainerSpec, "directory" | "bootId">;
  /** Its first process, as the host counts. */
  readonly pid: number;
}

/**
 * Covers `/proc/sys/kernel/random/boot_id` of a container before any program of it runs: programs read
 * one id for each start, never that of the machine.
 * @throws SandboxError unavailable, canceled, deadline_exceeded
 */
async function coverBootId(options: BootIdOptions, signal: AbortSignal): Promise<void> {
  const { perlDirectory, spec, pid } = options;
  const { directory, bootId } = spec;
  if (bootId === undefined) return;
  const stage = stageOf(directory).directory;
  const words = [process.arch, String(process.pid), String(pid), stage, bootId];
  const command = perlCommand(perlDirectory, "boot-id", words);
  await runProgram(command, { signal, timeoutMs: BOOT_ID_TIMEOUT_MS });
}
