/** A stage for faults whose home is on a small disk that a case fills. */

import { NO_POOL, openFaultStage, type FaultStage } from "./fault-stage.ts";
import { openSmallDisk, type SmallDisk } from "./small-disk.ts";

/** Leaves something for what the database has to say. */
export const LEFT_BYTES = 4 * 1024 * 1024;

export interface SmallDiskStage extends FaultStage {
  readonly disk: SmallDisk;
}

/** Opens it with a running service that has no pool. */
export async function openSmallDiskStage(flags: readonly string[] = []): Promise<SmallDiskStage> {
  const opened = Promise.withResolvers<SmallDisk>();
  const stage = await openFaultStage([...NO_POOL, ...flags], async () => {
    const made = await openSmallDisk();
    opened.resolve(made);
    return made;
  });
  const disk = await opened.promise;
  return {
    ...stage,
    disk,
    async clear() {
      await disk.free();
      await stage.clear();
    },
  };
}
