/**
 * Stopping, ending and counting the processes of a container without any cgroup, for who may not
 * make one: by signals to everything in the container's process namespace. The kernel limits
 * nothing here.
 */

import { readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { SandboxError } from "../../common/errors.ts";
import { ifThere, readIfThere, readKernelFile } from "../../common/files.ts";
import type { ContainerLimits, Usage } from "../engine.ts";
import { readStat } from "../host/process-stat.ts";
import { signalProcess } from "../host/run-program.ts";
import { readRecord } from "./container-record.ts";
import { findProcesses } from "./runtime-processes.ts";

/** The cgroups of one container, one in each tree. */
export interface Cgroup {
  /** As the OCI configuration names it. */
  readonly path: string;
  /** Its folder in the unified tree. */
  readonly unified: string | undefined;
  /**
   * Makes the folders, so that no other instance can take their parent away, and sets the limits
   * where the runtime does not.
   */
  make(limits: ContainerLimits): Promise<void>;
  /** @throws SandboxError deadline_exceeded when a process does not come to a stop; all go on then. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  isFrozen(): Promise<boolean>;
  /** Whether any process is left. */
  isPopulated(): Promise<boolean>;
  /** Ends every process, frozen or not, and waits until none is left. */
  kill(): Promise<void>;
  /** The limit that the kernel holds, in bytes; undefined when there is none. */
  readMemoryLimit(): Promise<number | undefined>;
  /** Processes that the kernel ended here for lack of memory; undefined where it does not count. */
  countOutOfMemory(): Promise<number | undefined>;
  /** Processor time in milliseconds and memory in bytes. */
  readUsage(): Promise<Pick<Usage, "cpuMs" | "memoryBytes" | "cacheBytes">>;
  /** Removes the folders; the parent too when it is empty. Idempotent. */
  remove(): Promise<void>;
}

const TIMEOUT_MS = 5_000;
const POLL_MS = 2;
/** Of proc_pid_stat(5) and of every processor that Node runs on. */
const TICKS_PER_S = 100;
const PAGE_BYTES = 4096;
const MS_PER_S = 1_000;

/** The processes of the container with this id, of this folder. */
export function openProcessGroup(id: string, directory: string): Cgroup {
  const first = async () => findFirst(id, directory);
  const thaw = async () => continueAll(await first());
  return {
    path: "",
    unified: undefined,
    make: async () => undefined,
    remove: async () => undefined,
    freeze: async () => freezeOrThaw(async () => stopAll(await first()), thaw),
    thaw,
    isFrozen: async () => {
      const pid = await first();
      return pid !== undefined && !(await listRunning(pid)).includes(pid);
    },
    isPopulated: async () => (await first()) !== undefined,
    kill: async () => {
      const pid = await first();
      if (pid === undefined) return;
      // With its first process the kernel ends all of a namespace.
      signalProcess(pid, "SIGKILL");
      await waitUntil(async () => (await first()) !== pid, TIMEOUT_MS, "processes did not end");
    },
    readMemoryLimit: async () => undefined,
    countOutOfMemory: async () => undefined,
    readUsage: async () => readUsage(await first()),
  };
}

/** The first process of the container, seen from here; undefined when there is none. */
async function findFirst(id: string, directory: string): Promise<number | undefined> {
  const record = await readRecord(directory);
  if (record !== undefined) {
    const isThere = readStat(record.pid)?.startTicks === record.startTicks;
    if (isThere || !record.isHalted) return isThere ? record.pid : undefined;
  }
  // A start that was broken off: the runtime has told of a process, we have not yet.
  const told = await readIfThere(join(directory, "runtime", "pid"));
  if (told === undefined) return findUntold(id);
  const pid = Number(told);
  if (!Number.isSafeInteger(pid) || pid <= 1) return undefined;
  return (await isInside(pid)) ? pid : undefined;
}

/**
 * The first process of a start whose runtime was killed before it told of one: it runs the command of
 * the runtime or that of the container, and the id stands last in both.
 */
async function findUntold(id: string): Promise<number | undefined> {
  for (const pid of findProcesses((words) => words.endsWith(`\0${id}\0`))) {
    const isFirst = /^NSpid:.*\s1$/m.test(readKernelFile(`/proc/${pid}/status`) ?? "");
    if (isFirst && (await isInside(pid))) return pid;
  }
  return undefined;
}

/** Whether the process is in another process namespace than this one. */
async function isInside(pid: number): Promise<boolean> {
  const [theirs, ours] = await Promise.all([namespaceOf(pid), namespaceOf(process.pid)]);
  return theirs !== undefined && theirs !== ours;
}

/** Every process of the namespace, in the order of their numbers. */
async function listProcesses(first: number): Promise<number[]> {
  const namespace = await namespaceOf(first);
  if (namespace === undefined) return [];
  const names = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    names.map(async (name) =>
      (await namespaceOf(Number(name))) === namespace ? [Number(name)] : [],
    ),
  );
  return found.flat().toSorted((left, right) => left - right);
}

async function namespaceOf(pid: number): Promise<string | undefined> {
  // EACCES: of another user.
  return ifThere(readlink(`/proc/${pid}/ns/pid`), "ESRCH", "EACCES");
}

async function stopAll(first: number | undefined): Promise<void> {
  if (first === undefined) throw new SandboxError("unavailable", "container is gone");
  // One that is not stopped yet may have started another meanwhile.
  await waitUntil(
    async () => {
      const running = await listRunning(first);
      for (const pid of running) signalProcess(pid, "SIGSTOP");
      return running.length === 0;
    },
    TIMEOUT_MS,
    "a process does not stop",
  );
}

async function listRunning(first: number): Promise<number[]> {
  const pids = await listProcesses(first);
  const forking = new Set(pids.filter((pid) => isStopped(pid)).map((pid) => readStat(pid)?.parent));
  return pids.filter((pid) => !isStopped(pid) && !(isForking(pid) && forking.has(pid)));
}

/**
 * Whether it waits in the kernel, as after vfork(2) until its child has executed a program: it takes
 * no signal meanwhile, but stops before it runs again.
 */
function isForking(pid: number): boolean {
  return readStat(pid)?.state === "D";
}

/** Children first: a shell that ran before them would take them for stopped by a person. */
async function continueAll(first: number | undefined): Promise<void> {
  if (first === undefined) throw new SandboxError("unavailable", "container is gone");
  for (const pid of (await listProcesses(first)).toReversed()) signalProcess(pid, "SIGCONT");
}

/** One that has ended does not run either. */
function isStopped(pid: number): boolean {
  const entry = readStat(pid);
  return entry === undefined || entry.state === "T" || entry.state === "t";
}

/** Time of ended processes is counted with their parents, up to the first one. */
async function readUsage(
  first: number | undefined,
): Promise<Pick<Usage, "cpuMs" | "memoryBytes" | "cacheBytes">> {
  const pids = first === undefined ? [] : await listProcesses(first);
  let ticks = 0;
  let memoryBytes = 0;
  for (const pid of pids) {
    ticks += readStat(pid)?.cpuTicks ?? 0;
    const [, resident = 0, shared = 0] = (readKernelFile(`/proc/${pid}/statm`) ?? "")
      .split(" ")
      .map(Number);
    memoryBytes += (resident - shared) * PAGE_BYTES;
  }
  return { cpuMs: (ticks * MS_PER_S) / TICKS_PER_S, memoryBytes, cacheBytes: 0 };
}

/** An order to stop holds until it is taken back: what has not obeyed in time would stop later, unasked. */
export async function freezeOrThaw(
  freeze: () => Promise<void>,
  thaw: () => Promise<void>,
): Promise<void> {
  try {
    await freeze();
  } catch (error) {
    // Why it did not stop says more.
    await thaw().catch(() => undefined);
    throw error;
  }
}

/** @throws SandboxError deadline_exceeded with this complaint when it is not done in time. */
export async function waitUntil(
  isDone: () => Promise<boolean>,
  timeoutMs: number,
  complaint: string,
): Promise<void> {
  const endMs = performance.now() + timeoutMs;
  while (!(await isDone())) {
    if (performance.now() > endMs) throw new SandboxError("deadline_exceeded", complaint);
    await delay(POLL_MS);
  }
}
