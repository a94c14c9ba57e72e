/** The runs of one container: each ends by a halt, with or without the memory of its programs. */

import { step } from "../../common/steps.ts";
import type { Container } from "../engine.ts";
import type { Connections } from "../network/connections.ts";
import type { Routers } from "../network/router.ts";
import { flushDisk, flushFault, isFlushFault } from "../storage/disk.ts";
import { copyMemory, type CopyParts } from "./container-copies.ts";
import { withUnsyncedDisk, writeRecord, type ContainerRecord } from "./container-record.ts";
import type { Boot } from "./launch-context.ts";
import { haltContainer } from "./remove-container.ts";
import { recordBoot, removeSaved, savedMemoryOf } from "./saved-memory.ts";

export interface RunParts extends Omit<CopyParts, "connections" | "record"> {
  readonly record: ContainerRecord;
  readonly routers: Routers;
  /** Starts the container on the disk in its folder; the record of the new run. */
  boot(boot: Boot, signal: AbortSignal): Promise<ContainerRecord>;
}

export interface Runs
  extends Pick<Container, "owesHalt" | "halt" | "haltWithMemory" | "boot">, Disposable {
  /** As it is now. */
  readonly record: ContainerRecord;
}

export interface RunWatch {
  readonly connections: Connections;
  /** Watches for the end of a run that no halt brought about. */
  readonly watch: (record: ContainerRecord) => Disposable;
}

export function createRuns(parts: RunParts, { connections, watch }: RunWatch): Runs {
  const { directory, cgroup, routers } = parts;
  let { record } = parts;
  let life = record.isHalted ? undefined : watch(record);
  let owesHalt = false;

  const keepingFaults = async (work: () => Promise<void>) =>
    whileNothingIsLost({ directory, record: () => record, mark: (lost) => (record = lost) }, work);

  const stop = () => {
    life?.[Symbol.dispose]();
    life = undefined;
  };

  async function end(halted: ContainerRecord): Promise<void> {
    // First the record: a process that finds the folder after a crash finishes the halt.
    await recordHalt(directory, { before: record, halted });
    record = halted;
    owesHalt = true;
    stop();
    await step("halt.recorded");
    await keepingFaults(async () => haltContainer(directory, cgroup, routers));
    await writeRecord(directory, halted);
    owesHalt = false;
  }

  return {
    get record() {
      return record;
    },
    get owesHalt() {
      return owesHalt;
    },
    async halt() {
      // While its programs run there is a way back: they go on with what they wrote.
      if (!record.isHalted) await keepingFaults(async () => flushDisk(directory));
      await end({ ...record, isHalted: true });
    },
    async haltWithMemory() {
      await keepingFaults(async () => undefined);
      await removeSaved(directory);
      try {
        const source = { ...parts, connections, record: () => record };
        await copyMemory(source, savedMemoryOf(directory));
        await step("move.saved");
        await end({ ...record, isHalted: true, memory: "saved" });
      } catch (error) {
        if (!record.isHalted) await removeSaved(directory);
        throw error;
      }
    },
    async boot(spec, signal) {
      if (owesHalt) await end(record);
      // From now on programs see what the disk has.
      const { hasLostWrites: _lost, ...known } = record;
      record = known;
      // The record of the new run may not outlive a power cut; that of the halted one would.
      await writeRecord(directory, withUnsyncedDisk(record));
      const memory = record.memory === undefined ? undefined : spec.memory;
      const progress = recordBoot(directory, record, { isRestore: memory !== undefined });
      try {
        record = await parts.boot({ spec: { ...spec, memory }, progress }, signal);
      } catch (error) {
        record = progress.record;
        // On record is a disk that is being written to, which a power cut would take away.
        await end(record).catch(() => {
          owesHalt = true;
        });
        throw error;
      }
      life = watch(record);
      // The programs run: what is left of their memory goes with the container at the latest.
      await removeSaved(directory).catch(() => undefined);
    },
    [Symbol.dispose]: stop,
  };
}

async function recordHalt(
  directory: string,
  { before, halted }: Readonly<Record<"before" | "halted", ContainerRecord>>,
): Promise<void> {
  try {
    await writeRecord(directory, withUnsyncedDisk(halted));
  } catch (error) {
    // It may be there all the same: a later process would end the programs, which go on.
    if (!before.isHalted) await writeRecord(directory, before).catch(() => undefined);
    throw error;
  }
}

interface LossRecord {
  readonly directory: string;
  readonly record: () => ContainerRecord;
  /** What the record is from now on. */
  readonly mark: (lost: ContainerRecord) => void;
}

/** The kernel tells of a lost write once: from then on the record does, to a later process too. */
async function whileNothingIsLost(
  { directory, record, mark }: LossRecord,
  work: () => Promise<void>,
): Promise<void> {
  if (record().hasLostWrites === true) throw flushFault();
  try {
    await work();
  } catch (error) {
    if (isFlushFault(error)) {
      const lost = { ...record(), hasLostWrites: true };
      mark(lost);
      // The same disk may refuse the record too; this process knows.
      const written = writeRecord(directory, lost.isHalted ? withUnsyncedDisk(lost) : lost);
      await written.catch(() => undefined);
    }
    throw error;
  }
}
