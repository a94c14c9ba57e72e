/** The launch of a container that shares this machine's kernel, by crun or runc. */

import { join } from "node:path";
import { allEnded } from "../../common/concurrency.ts";
import { coverBootId } from "./boot-id.ts";
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
