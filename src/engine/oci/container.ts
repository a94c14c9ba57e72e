/** One container as its user sees it; everything it needs to know is in its folder. */

import { renameSync, statfsSync, watch, writeFileSync, type FSWatcher } from "node:fs";
import { join } from "node:path";
import { toSandboxError } from "../../common/errors.ts";
import { draftOf } from "../../common/files.ts";
import { step } from "../../common/steps.ts";
import type { Container, ContainerExit, ContainerSpec, Deadline, Usage } from "../engine.ts";
import { createConnections } from "../network/connections.ts";
import { dialControlSocket, dialPublicSocket, openPort } from "../network/container-sockets.ts";
import type { HostNetwork, Routers } from "../network/router.ts";
import { DISK_NAMES, openDisk } from "../storage/disk.ts";
import { createCopies, type MemorySaver } from "./container-copies.ts";
import {
  readStartTicks,
  withUnsyncedDisk,
  writeRecord,
  type ContainerRecord,
} from "./container-record.ts";
import type { Cgroup } from "./process-group.ts";
import { DEADLINE_NAME, haltContainer, removeContainer } from "./remove-container.ts";

/** The kernel tells of the end at once where it can, and then this is for what it did not tell. */
const WATCH_INTERVAL_MS = { told: 30_000, untold: 1_000 } as const;

const ENDED = "init ended";

export interface ContainerParts {
  readonly directory: string;
  readonly record: ContainerRecord;
  readonly cgroup: Cgroup;
  /** Starts the container anew on the disk in its folder; the record of the new run. */
  boot(spec: ContainerSpec, signal: AbortSignal): Promise<ContainerRecord>;
  /** Undefined where containers have loopback alone. */
  readonly outside: HostNetwork | undefined;
  /** Where the perl programs lie. */
  readonly perlDirectory: string;
  readonly routers: Routers;
  /** Whether a guardian reads deadlines. */
  readonly hasDeadlines: boolean;
  readonly memory: MemorySaver;
}

/** A handle on a container that runs or was halted; it watches for its end. */
export function openContainer(parts: ContainerParts): Container {
  const { directory, cgroup, outside, perlDirectory, routers } = parts;
  const { promise: exit, resolve } = Promise.withResolvers<ContainerExit>();
  let { record } = parts;
  const place = () => ({ directory, secret: record.secret });
  const connections = createConnections();
  const dialDaemon = async (signal: AbortSignal) =>
    connections.open(() => dialControlSocket(place(), signal), signal);
  const watchRun = () => (record.isHalted ? undefined : watchLife({ record, cgroup }, resolve));
  let life = watchRun();
  const copied = { directory, cgroup, perlDirectory, memory: parts.memory, connections };
  let removal: Promise<void> | undefined;
  return {
    id: record.id,
    exit,
    get level() {
      return record.level;
    },
    network: outside === undefined ? "loopback" : "routed",
    hasLastingEgress: outside === undefined || routers.outlivesProcess,
    setEgress: async (egress) => routers.setEgress({ directory, record, outside }, egress),
    dial: async (port, signal) => openPort(dialDaemon, port, signal),
    dialPublic: async (signal) => connections.open(() => dialPublicSocket(place(), signal), signal),
    dialControl: dialDaemon,
    pause: async () => cgroup.freeze(),
    resume: async () => cgroup.thaw(),
    get isHalted() {
      return record.isHalted;
    },
    async halt() {
      const halted = { ...record, isHalted: true };
      // First the record: a process that finds the folder after a crash finishes the halt.
      await writeRecord(directory, withUnsyncedDisk(halted));
      record = halted;
      life?.[Symbol.dispose]();
      life = undefined;
      await step("halt.recorded");
      await haltContainer(directory, cgroup, routers);
      await writeRecord(directory, halted);
    },
    async boot(spec, signal) {
      // The record of the new run may not outlive a power cut; that of the halted one would.
      await writeRecord(directory, withUnsyncedDisk(record));
      record = await parts.boot(spec, signal);
      life = watchRun();
    },
    readUsage: async () => readUsage(directory, cgroup),
    disk: openDisk(directory),
    ...createCopies({ ...copied, record: () => record }),
    setDeadline: (deadline) => {
      if (parts.hasDeadlines) writeDeadline(directory, deadline);
    },
    [Symbol.asyncDispose]: async () => {
      life?.[Symbol.dispose]();
      removal ??= removeContainer(directory, cgroup, routers);
      try {
        await removal;
      } catch (error) {
        // The next call tries again: a retry would be told of this failure for ever.
        removal = undefined;
        throw error;
      } finally {
        resolve({ reason: "killed" });
      }
    },
  };
}

async function readUsage(directory: string, cgroup: Cgroup): Promise<Usage> {
  const disk = statfsSync(join(directory, DISK_NAMES.mount));
  return {
    ...(await cgroup.readUsage()),
    outOfMemoryKills: await cgroup.countOutOfMemory(),
    diskBytes: (disk.blocks - disk.bavail) * disk.bsize,
    diskTotalBytes: disk.blocks * disk.bsize,
  };
}

/** @throws SandboxError resource_exhausted on a full disk; the deadline before stays then. */
function writeDeadline(directory: string, { atMs, action }: Deadline): void {
  const path = join(directory, DEADLINE_NAME);
  try {
    writeFileSync(draftOf(path), `${Math.ceil(atMs / MS_PER_S)} ${action}\n`, { mode: 0o600 });
    renameSync(draftOf(path), path);
  } catch (error) {
    throw toSandboxError(error, "deadline");
  }
}

const MS_PER_S = 1_000;

interface RunParts {
  readonly record: ContainerRecord;
  readonly cgroup: Cgroup;
}

/** Tells when PID 1 is gone: the kernel ends every other process of the container with it. */
function watchLife({ record, cgroup }: RunParts, onEnd: (exit: ContainerExit) => void): Disposable {
  let isOver = false;
  const watcher = watchEvents(cgroup, () => check());
  const intervalMs = watcher === undefined ? WATCH_INTERVAL_MS.untold : WATCH_INTERVAL_MS.told;
  const timer = setInterval(() => check(), intervalMs).unref();
  const stop = () => {
    isOver = true;
    clearInterval(timer);
    watcher?.close();
  };
  const settle = async () => {
    // A process that is just ending is still there when the kernel tells that its cgroup is empty.
    const isThere = readStartTicks(record.pid) === record.startTicks;
    if (isThere && (await cgroup.isPopulated())) return;
    const reason = ((await cgroup.countOutOfMemory()) ?? 0) > 0 ? "out of memory" : ENDED;
    // It may have been halted or removed meanwhile: then this is no end that others must learn.
    if (isOver) return;
    stop();
    onEnd({ reason });
  };
  // A look that fails says nothing about the container; the timer brings the next one.
  const check = () => void settle().catch(() => watcher?.unref());
  return { [Symbol.dispose]: stop };
}

function watchEvents(cgroup: Cgroup, onChange: () => void): FSWatcher | undefined {
  if (cgroup.unified === undefined) return undefined;
  const watcher = watch(join(cgroup.unified, "cgroup.events"), { persistent: false }, onChange);
  // The folder goes with the container; a watch that fails otherwise leaves the timer.
  watcher.on("error", () => watcher.close());
  return watcher;
}
