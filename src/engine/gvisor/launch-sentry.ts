/** The launch of a container with a kernel of its own, by runsc. */

import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { allEnded } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import type { Launch, LaunchContext, Preparation } from "../oci/launch-context.ts";
import { FOLDER_NAMES } from "../oci/remove-container.ts";
import { explainFailure, readFirstProcess } from "../oci/run-runtime.ts";
import { readSentryLevel, requireLevel } from "../oci/verify-container.ts";
import {
  notRestorable,
  notRestoredInTime,
  readPlace,
  requireRestorable,
  type RestorableMemory,
} from "./memory-image.ts";
import { startRelay } from "./relay.ts";
import { makeNetwork, newSecret, prepareSentry, runSentry } from "./run-sentry.ts";

export function createSentryLaunch(
  context: LaunchContext & { readonly flags: readonly string[] },
  { claim, disk, diskSteps }: Preparation,
  signal: AbortSignal,
): Launch {
  const { spec, idBase, cgroup } = claim;
  const { directory, id } = spec;
  let memory: RestorableMemory = { secret: newSecret() };
  const run = { ...context, ...claim };
  const file = (name: string) => join(directory, FOLDER_NAMES.runtime, name);
  const makePlace = async () => {
    if (spec.memory !== undefined) {
      // With the secret of the daemon that goes on.
      memory = await openMemory(context, spec.memory);
    }
    await mkdir(join(directory, FOLDER_NAMES.runtime), { mode: 0o700 });
    await allEnded([makeNetwork(directory), cgroup.make(spec.limits)]);
  };
  return {
    async prepare() {
      // The disk is made meanwhile: whatever fails, it is waited for.
      await allEnded([disk, makePlace()]);
      await prepareSentry(run, join(directory, FOLDER_NAMES.config), memory.secret);
      const { outside, routers } = context;
      const known = { id, idBase, isHalted: false, daemon: basename(context.daemon) };
      const unborn = { ...known, pid: 1, startTicks: "", level: "gvisor" } as const;
      // Its kernel takes over the links that are there when it starts, and no others.
      await routers.setEgress({ directory, record: unborn, outside }, spec.egress);
    },
    async run() {
      try {
        await runSentry(run, { diskSteps, sealed: memory.sealed }, signal);
      } catch (error) {
        const fault = await explainFailure(error, file("log"));
        if (spec.memory === undefined || !(fault instanceof SandboxError)) throw fault;
        if (fault.code === "deadline_exceeded") throw notRestoredInTime(fault);
        if (fault.code !== "unavailable") throw fault;
        // The runtime says of a kernel that was ended that a connection ended.
        const isOut = ((await cgroup.countOutOfMemory()) ?? 0) > 0;
        const limit = `it takes more than the ${spec.limits.memoryMb} MB of the sandbox`;
        throw notRestorable(isOut ? limit : fault.message, fault);
      }
      return readFirstProcess(file("pid"));
    },
    async prove(pid) {
      const level = readSentryLevel({ pid, idBase }, context.runtime);
      requireLevel(level, "gvisor");
      const { secret } = memory;
      await startRelay({ ...context, id, directory, secret }, signal);
      return { level, secret };
    },
    connect: async () => undefined,
  };
}

/** @throws SandboxError failed_precondition, sandbox_memory_not_restorable, when it cannot be restored here. */
export async function openMemory(
  { runtime, daemon, keys }: Pick<LaunchContext, "runtime" | "daemon" | "keys">,
  folder: string,
): Promise<RestorableMemory> {
  const here = await readPlace(runtime, basename(daemon));
  return requireRestorable(folder, here, keys.home);
}
