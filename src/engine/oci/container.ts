/** One container as its user sees it; everything it needs to know is in its folder. */

import { statfsSync } from "node:fs";
import { join } from "node:path";
import { readKernelFile } from "../../common/files.ts";
import type { Container, ContainerExit, Usage } from "../engine.ts";
import { askByRelay, type RelayDial } from "../gvisor/relay.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { createConnections } from "../network/connections.ts";
import { dialDaemon, openPort } from "../network/container-sockets.ts";
import type { HostNetwork } from "../network/host-network.ts";
import { DISK_NAMES, openDisk } from "../storage/disk.ts";
import { createCopies, findSaveFault } from "./container-copies.ts";
import type { ContainerRecord } from "./container-record.ts";
import { createRuns, type RunParts } from "./container-runs.ts";
import { writeDeadline } from "./deadline.ts";
import type { Cgroup } from "./process-group.ts";
import { removeContainer } from "./remove-container.ts";
import { savedMemoryOf } from "./saved-memory.ts";
import type { SocketWatch } from "./socket-watch.ts";
import { watchGroup } from "./watch-group.ts";

/** The kernel tells of the end at once where it can, and then this is for what it did not tell. */
const WATCH_INTERVAL_MS = { told: 30_000, untold: 1_000 } as const;

const ENDED = "init ended";
const OUT_OF_MEMORY = "out of memory";

export interface ContainerParts extends RunParts {
  /** Undefined where containers have loopback alone. */
  readonly outside: HostNetwork | undefined;
  /** Whether its link and rules have gone with the process that made them, or may not be there any more. */
  readonly needsEgress?: boolean;
  /** Whether a guardian reads deadlines. */
  readonly hasDeadlines: boolean;
  readonly sockets: SocketWatch;
  /** Why the memory that is saved of it does not come back. */
  readonly findRestoreFault?: () => Promise<string | undefined>;
  /** How its sockets are dialed where a program of the host stands between them and the daemon. */
  readonly reach?: RelayDial | undefined;
}

/** A handle on a container that runs or was halted; it watches for its end. */
export function openContainer(parts: ContainerParts): Container {
  const { directory, cgroup, outside, routers, sockets, needsEgress = false } = parts;
  const { reach = async (dial) => dial() } = parts;
  const { promise: exit, resolve } = Promise.withResolvers<ContainerExit>();
  const connections = createConnections();
  const runs = createRuns(parts, {
    connections,
    watch: (record) => watchLife({ record, cgroup, sockets }, resolve),
  });
  const place = () => ({ directory, secret: runs.record.secret });
  const dial = async (name: "public" | "control", signal: AbortSignal) =>
    connections.open(() => reach(() => dialDaemon(place(), name, signal)), signal);
  const dialControl = async (signal: AbortSignal) => dial("control", signal);
  let removal: Promise<void> | undefined;
  return {
    id: parts.record.id,
    exit,
    get level() {
      return runs.record.level;
    },
    network: outside === undefined ? "loopback" : "routed",
    hasLastingEgress: !needsEgress && (outside === undefined || routers.outlivesProcess),
    setEgress: async (egress) =>
      routers.setEgress({ directory, record: runs.record, outside }, egress),
    dial: async (port, signal) => openPort(dialControl, port, signal),
    dialPublic: async (signal) => dial("public", signal),
    dialControl,
    isAnswering: parts.reach === undefined ? undefined : async () => askByRelay(directory),
    pause: async () => cgroup.freeze(),
    resume: async () => cgroup.thaw(),
    get isHalted() {
      return runs.record.isHalted;
    },
    get owesHalt() {
      return runs.owesHalt;
    },
    get savedMemory() {
      return runs.record.memory === "saved" ? savedMemoryOf(directory) : undefined;
    },
    findRestoreFault: async () =>
      runs.record.memory === "saved" ? parts.findRestoreFault?.() : undefined,
    halt: runs.halt,
    haltWithMemory: runs.haltWithMemory,
    boot: runs.boot,
    readUsage: async () => readUsage(directory, cgroup),
    disk: openDisk(directory),
    get memoryFault() {
      return findSaveFault(parts.memory, runs.record);
    },
    ...createCopies({ ...parts, connections, record: () => runs.record }),
    setDeadline: (deadline) => {
      if (parts.hasDeadlines) writeDeadline(directory, deadline);
    },
    [Symbol.asyncDispose]: async () => {
      runs[Symbol.dispose]();
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

/**
 * Tells when PID 1 is gone: the kernel ends every other process of the container with it. With a
 * kernel of its own the container ends with the first of sentry and gofer.
 */
function watchLife(
  { record, cgroup, sockets }: Pick<ContainerParts, "record" | "cgroup" | "sockets">,
  onEnd: (exit: ContainerExit) => void,
): Disposable {
  let isOver = false;
  const { unified } = cgroup;
  const events = unified === undefined ? undefined : join(unified, "cgroup.events");
  const watcher = events === undefined ? undefined : watchGroup(events, () => check());
  const gofer = record.level === "gvisor" ? findGofer(cgroup) : undefined;
  const isTold = watcher !== undefined && gofer === undefined;
  const intervalMs = isTold ? WATCH_INTERVAL_MS.told : WATCH_INTERVAL_MS.untold;
  const timer = setInterval(() => check(), intervalMs).unref();
  let hasTooMuch = false;
  let ending: Promise<void> | undefined;
  const excess = sockets.add({
    pid: () => (isAlive(record) ? record.pid : undefined),
    end: () => {
      hasTooMuch = true;
      // One at a time, which looks for the last process every few milliseconds; the next look tries again.
      ending ??= cgroup
        .kill()
        .then(check, () => undefined)
        .finally(() => (ending = undefined));
    },
  });
  const stop = () => {
    isOver = true;
    clearInterval(timer);
    excess[Symbol.dispose]();
    watcher?.close();
  };
  const settle = async () => {
    // A process that is just ending is still there when the kernel tells that its cgroup is empty.
    const isThere = isAlive(record) && (gofer === undefined || isAlive(gofer));
    if (isThere && (await cgroup.isPopulated())) return;
    const isOut = hasTooMuch || ((await cgroup.countOutOfMemory()) ?? 0) > 0;
    // It may have been halted or removed meanwhile: then this is no end that others must learn.
    if (isOver) return;
    stop();
    onEnd({ reason: isOut ? OUT_OF_MEMORY : ENDED });
  };
  // A look that fails says nothing about the container; the timer brings the next one.
  const check = () => void settle().catch(() => watcher?.unref());
  return { [Symbol.dispose]: stop };
}

function isAlive({ pid, startTicks }: Pick<ContainerRecord, "pid" | "startTicks">): boolean {
  return readStartTicks(pid) === startTicks;
}

/** The file server of a kernel of its own, as runsc names it to the host. */
const GOFER = "runsc-gofer";

/**
 * Undefined where the host does not list the processes of the container in one place. It ends with the
 * first program of the container; the kernel itself stays for another 12 s, and answers nothing.
 */
function findGofer({
  unified,
}: Pick<Cgroup, "unified">): Pick<ContainerRecord, "pid" | "startTicks"> | undefined {
  if (unified === undefined) return undefined;
  const pids = (readKernelFile(join(unified, "cgroup.procs")) ?? "").split("\n").map(Number);
  const pid = pids.find((one) => readKernelFile(`/proc/${one}/cmdline`)?.split("\0")[0] === GOFER);
  const startTicks = pid === undefined ? undefined : readStartTicks(pid);
  return pid === undefined || startTicks === undefined ? undefined : { pid, startTicks };
}
