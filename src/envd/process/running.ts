/** The processes of the daemon: those that run, and for a while how the others ended. */

import { SandboxError } from "../../common/errors.ts";
import type { ProcessSelector } from "../../gen/process/process_pb.ts";
import type { DaemonLog, LogFields } from "../log.ts";
import { RunningProcess, type StartOptions } from "./child.ts";
import type { Subscription } from "./fan-out.ts";
import type { Outcome } from "./outcome.ts";
import { createOutputBudget } from "./output-budget.ts";

/** A process that is no more, and how it ended. */
export interface EndedProcess {
  readonly pid: number;
  readonly tag: string | undefined;
  readonly outcome: Outcome;
}

export interface ProcessTable extends Disposable {
  /** @throws SandboxError invalid_argument, resource_exhausted */
  start(options: Omit<StartOptions, "budget">): Promise<{
    readonly running: RunningProcess;
    readonly subscription: Subscription;
  }>;
  /** @throws SandboxError not_found, unimplemented */
  find(selector: ProcessSelector | undefined): RunningProcess;
  /** How a process ended, for half a minute after its end, unless one that runs fits too. */
  findEnded(selector: ProcessSelector | undefined): EndedProcess | undefined;
  list(): readonly RunningProcess[];
  /** Kills every process. */
  [Symbol.dispose](): void;
}

/** Each has two pipes and a queue; the sandbox's own limit of processes is usually lower. */
const MAX_PROCESSES = 1_024;
/** What List answers with, as JSON: the client here takes no longer message. */
const MAX_HELD_BYTES = 8_388_608;
/** Of each process, for the names of its fields and its pid. */
const ENTRY_BYTES = 160;
/** Tags name processes, also for a while after their end. */
const MAX_TAG_CHARACTERS = 4_096;
/** How long the end of a process is remembered. */
const RETENTION_MS = 30_000;
/** Ends remembered at one time; the oldest go first. */
const MAX_ENDED = 1_024;
/** A command is logged up to this length. */
const MAX_COMMAND_CHARACTERS = 256;

/** A table without processes. */
export function createProcessTable(log: DaemonLog): ProcessTable {
  const running = new Map<number, RunningProcess>();
  const ended = new Map<number, EndedProcess>();
  const budget = createOutputBudget();
  let starting = 0;
  let heldBytes = 0;

  function remember(process: RunningProcess, outcome: Outcome): void {
    if (running.get(process.pid) === process) running.delete(process.pid);
    const record: EndedProcess = { pid: process.pid, tag: process.tag, outcome };
    ended.set(process.pid, record);
    for (const pid of ended.keys()) {
      if (ended.size <= MAX_ENDED) break;
      ended.delete(pid);
    }
    // The record alone: the process holds its arguments and environment.
    const timer = setTimeout(() => {
      if (ended.get(record.pid) === record) ended.delete(record.pid);
    }, RETENTION_MS);
    timer.unref();
  }

  /** A new process with the pid or the tag of an old one must never be taken for it. */
  function evict(process: RunningProcess): void {
    ended.delete(process.pid);
    if (process.tag === undefined) return;
    for (const [pid, record] of ended) {
      if (record.tag === process.tag) ended.delete(pid);
    }
  }

  return {
    async start(options) {
      const bytes = bytesOf(options);
      requirePlace(running.size + starting + 1, heldBytes + bytes);
      budget.requireSpace();
      // Others begin while this one starts: what it will hold counts from now on.
      starting += 1;
      heldBytes += bytes;
      try {
        const started = await RunningProcess.start({ ...options, budget });
        running.set(started.running.pid, started.running);
        evict(started.running);
        logLife(log, started.running, options);
        // Resolves always, after the last event was given out.
        void started.running.ended.then((outcome) => {
          heldBytes -= bytes;
          return remember(started.running, outcome);
        });
        return started;
      } catch (error) {
        heldBytes -= bytes;
        throw error;
      } finally {
        starting -= 1;
      }
    },
    find(selector) {
      const found = lookUp(running, selector);
      if (found === undefined) throw missing(selector);
      return found;
    },
    findEnded(selector) {
      const isRunning = lookUp(running, selector) !== undefined;
      return isRunning ? undefined : lookUp(ended, selector);
    },
    list: () => [...running.values()],
    [Symbol.dispose]() {
      for (const process of running.values()) process.kill();
    },
  };
}

/** @throws SandboxError resource_exhausted for one process too many, or more than all may hold */
function requirePlace(processes: number, bytes: number): void {
  if (processes > MAX_PROCESSES) {
    throw new SandboxError("resource_exhausted", `more than ${MAX_PROCESSES} processes`);
  }
  if (bytes > MAX_HELD_BYTES) {
    const message = `commands of running processes exceed ${MAX_HELD_BYTES} bytes`;
    throw new SandboxError("resource_exhausted", message);
  }
}

/**
 * At least the bytes of a process in a listing; control characters are six each there.
 * @throws SandboxError invalid_argument for a tag that is too long
 */
function bytesOf({ config, tag = "" }: Pick<StartOptions, "config" | "tag">): number {
  if (tag.length > MAX_TAG_CHARACTERS) {
    throw new SandboxError("invalid_argument", `tag exceeds ${MAX_TAG_CHARACTERS} characters`);
  }
  const words = [tag, config.cmd, config.cwd ?? "", ...config.args];
  for (const pair of Object.entries(config.envs)) words.push(...pair);
  // The comma or colon that follows counts too.
  return words.reduce(
    (sum, word) => sum + Buffer.byteLength(JSON.stringify(word)) + 1,
    ENTRY_BYTES,
  );
}

function lookUp<T extends { readonly tag: string | undefined }>(
  processes: ReadonlyMap<number, T>,
  selector: ProcessSelector | undefined,
): T | undefined {
  const choice = selector?.selector;
  if (choice?.case === "pid") return processes.get(choice.value);
  if (choice?.case !== "tag") return undefined;
  return [...processes.values()].findLast((process) => process.tag === choice.value);
}

function missing(selector: ProcessSelector | undefined): SandboxError {
  const choice = selector?.selector;
  if (choice?.case === "pid" || choice?.case === "tag") {
    return new SandboxError("not_found", `process with ${choice.case} ${choice.value} not found`);
  }
  return new SandboxError("unimplemented", "invalid input type *process.ProcessSelector");
}

function logLife(
  log: DaemonLog,
  process: RunningProcess,
  { timeoutMs, operationId }: Pick<StartOptions, "timeoutMs" | "operationId">,
): void {
  const { pid, config } = process;
  const command = [config.cmd, ...config.args].join(" ").slice(0, MAX_COMMAND_CHARACTERS);
  const base = { logger: "process", pid, operation_id: operationId };
  log.write("info", `Process with pid ${pid} started`, {
    ...base,
    event_type: "process_start",
    command,
    ...(timeoutMs !== undefined && { request_timeout_ms: timeoutMs }),
  });
  // Resolves always.
  void process.ended.then((outcome) => logEnd(log, process, { ...base, outcome }));
}

function logEnd(
  log: DaemonLog,
  { pid, traffic }: RunningProcess,
  { outcome, ...base }: LogFields & { readonly outcome: Outcome },
): void {
  const { exitCode, exited, status, error } = outcome;
  log.write("info", `Process with pid ${pid} ended`, {
    ...base,
    event_type: "process_end",
    process_result: { exit_code: exitCode, exited, status, error },
    stdout_bytes: traffic.stdout,
    stderr_bytes: traffic.stderr,
    pty_bytes: traffic.pty,
  });
}
