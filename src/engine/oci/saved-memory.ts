/**
 * The memory of a halted container, in a folder beside its disk. It counts only where the record says
 * so, and only as long as no program has run on the disk since: the record says that before one does.
 */

import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import { removeImages } from "../gvisor/remove-image.ts";
import { withUnsyncedDisk, writeRecord, type ContainerRecord } from "./container-record.ts";
import type { LaunchProgress } from "./launch-context.ts";
import { SAVED_NAME } from "./remove-container.ts";

/** Where the memory of a container lies once it is whole. */
export function savedMemoryOf(directory: string): string {
  return join(directory, SAVED_NAME, "memory");
}

/** Removes the memory and every draft of it. */
export async function removeSaved(directory: string): Promise<void> {
  await removeImages(join(directory, SAVED_NAME));
}

export interface BootRecord extends LaunchProgress {
  /** What holds of the halted container when the boot has failed. */
  readonly record: ContainerRecord;
}

/** Keeps on record, during a boot, whether the memory is still that of the files. */
export function recordBoot(
  directory: string,
  halted: ContainerRecord,
  { isRestore }: { readonly isRestore: boolean },
): BootRecord {
  const { memory, ...files } = halted;
  let record = halted;
  let isKept = memory !== undefined;
  return {
    get record() {
      return record;
    },
    async begun() {
      if (memory === undefined) return;
      isKept = isRestore;
      const begun = isRestore ? { ...files, memory: "begun" as const } : files;
      await writeRecord(directory, withUnsyncedDisk(begun));
      await step("restore.begun");
    },
    ran() {
      isKept = false;
    },
    async failed(error) {
      if (memory === undefined) return;
      // One that was ended in the middle may have let programs go on.
      const isCut = error instanceof SandboxError && CUT.has(error.code);
      if (isKept && !(isRestore && isCut)) {
        await writeRecord(directory, withUnsyncedDisk(halted));
        return;
      }
      record = files;
      // First the memory: on a full disk there is space for the record then.
      await removeSaved(directory);
      await writeRecord(directory, withUnsyncedDisk(files));
    },
  };
}

const CUT: ReadonlySet<string> = new Set(["deadline_exceeded", "canceled"]);
