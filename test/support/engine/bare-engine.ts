/**
 * An engine without any isolation: the daemon is a plain child of this process. No command can
 * select it.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { access, mkdir, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { withDeadline } from "../../../src/common/clock.ts";
import { SandboxError, toSandboxError } from "../../../src/common/errors.ts";
import { removeEmpty } from "../../../src/common/files.ts";
import type {
  Container,
  ContainerExit,
  ContainerSpec,
  Engine,
  EngineReport,
} from "../../../src/engine/engine.ts";
import { PROGRAM_ENVIRONMENT } from "../../../src/engine/host/find-program.ts";
import { launcherCommand } from "../../../src/engine/host/launcher.ts";
import { killGroup } from "../../../src/engine/host/run-program.ts";
import {
  dialDaemon,
  openPort,
  SOCKET_NAMES,
} from "../../../src/engine/network/container-sockets.ts";

const START_TIMEOUT_MS = 10_000;
/** The daemon ends its own children on SIGTERM; after this it has no say any more. */
const END_GRACE_MS = 2_000;

export interface BareEngineOptions {
  /** The daemon as program and arguments; it gets its two sockets as descriptors 3 and 4. */
  readonly command: readonly [string, ...string[]];
  readonly perlDirectory: string;
}

/** Runs the daemon as a child, with the same sockets and life as in a container. */
export function createBareEngine(options: BareEngineOptions): Engine {
  return {
    probe: async () => bareReport(),
    create: async (spec, signal) => startBareContainer(options, spec, signal),
    adopt: async () => undefined,
    remove: async (_id, directory) => removeFolder(directory),
    prune: async () => [],
    squash: async () => {
      throw new SandboxError("unimplemented", "the bare engine has no layers to join");
    },
  };
}

function bareReport(): EngineReport {
  return { runtime: "bare", level: "none", isUsable: true, checks: [] };
}

interface Run {
  readonly child: ChildProcess;
  readonly exit: Promise<ContainerExit>;
}

async function startBareContainer(
  options: BareEngineOptions,
  spec: ContainerSpec,
  signal: AbortSignal,
): Promise<Container> {
  if (signal.aborted) throw new SandboxError("canceled", "create was canceled");
  await mkdir(spec.directory, { mode: 0o700 });
  try {
    return createBareContainer(options, { spec, first: await startRun(options, spec, signal) });
  } catch (error) {
    await removeFolder(spec.directory);
    throw error;
  }
}

async function startRun(
  { command, perlDirectory }: BareEngineOptions,
  spec: ContainerSpec,
  signal: AbortSignal,
): Promise<Run> {
  const [file, ...args] = launcherCommand(perlDirectory, [
    ["chdir", spec.directory],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    ["null", "1"],
    ["exec", ...command],
  ]);
  const child = spawn(file, args, {
    env: PROGRAM_ENVIRONMENT,
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  const run = { child, exit: exitOf(child) };
  try {
    await untilListening(child, signal);
    // A launcher that failed closed its output too, but left no socket.
    await access(join(spec.directory, SOCKET_NAMES.control));
    return run;
  } catch (error) {
    await endRun(run);
    throw toSandboxError(error, "daemon did not start");
  }
}

async function endRun({ child, exit }: Run): Promise<void> {
  child.kill("SIGCONT");
  child.kill("SIGTERM");
  const timer = setTimeout(() => killGroup(child.pid), END_GRACE_MS);
  await exit;
  clearTimeout(timer);
}

/** The launcher closes its standard output once both sockets listen. */
async function untilListening(child: ChildProcess, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => reject(new SandboxError("canceled", "create was canceled"));
  signal.addEventListener("abort", onAbort, { once: true });
  child.once("error", (error) =>
    reject(new SandboxError("unavailable", "daemon did not start", { cause: error })),
  );
  child.stdout?.once("close", resolve).resume();
  try {
    await withDeadline(
      promise,
      START_TIMEOUT_MS,
      () => new SandboxError("deadline_exceeded", "daemon did not start in time"),
    );
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

function exitOf(child: ChildProcess): Promise<ContainerExit> {
  const { promise, resolve } = Promise.withResolvers<ContainerExit>();
  child.once("error", () => resolve({ reason: "init did not start" }));
  child.once("exit", (_code, signal) =>
    resolve({ reason: signal === null ? "init ended" : "killed" }),
  );
  return promise;
}

function createBareContainer(
  options: BareEngineOptions,
  { spec, first }: { readonly spec: ContainerSpec; readonly first: Run },
): Container {
  const { promise: exit, resolve } = Promise.withResolvers<ContainerExit>();
  let run: Run | undefined;
  const watchRun = async (next: Run) => {
    const end = await next.exit;
    // A run that was halted is no end of the container.
    if (run === next) resolve(end);
  };
  const enter = (next: Run) => {
    run = next;
    // The exit never rejects.
    void watchRun(next);
  };
  const leave = async () => {
    const ended = run;
    run = undefined;
    if (ended !== undefined) await endRun(ended);
    await removeSockets(spec.directory);
  };
  enter(first);
  return {
    id: spec.id,
    exit,
    level: "none",
    network: "host",
    hasLastingEgress: true,
    setEgress: async () => undefined,
    dial: async (port, signal) =>
      openPort(async (limit) => dialDaemon(spec, "control", limit), port, signal),
    dialPublic: async (signal) => dialDaemon(spec, "public", signal),
    dialControl: async (signal) => dialDaemon(spec, "control", signal),
    pause: async () => void run?.child.kill("SIGSTOP"),
    resume: async () => void run?.child.kill("SIGCONT"),
    get isHalted() {
      return run === undefined;
    },
    halt: leave,
    owesHalt: false,
    savedMemory: undefined,
    haltWithMemory: async () => {
      throw new SandboxError("unimplemented", "the bare engine saves no memory");
    },
    boot: async (_spec, signal) => enter(await startRun(options, spec, signal)),
    readUsage: async () => {
      const { blocks, bavail, bsize } = await statfs(spec.directory);
      const disk = { diskBytes: (blocks - bavail) * bsize, diskTotalBytes: blocks * bsize };
      // Nothing tells the daemon's share from that of the host.
      return { cpuMs: 0, memoryBytes: 0, cacheBytes: 0, ...disk };
    },
    memoryFault: "programs are those of the host",
    snapshot: async () => {
      throw new SandboxError("unimplemented", "the bare engine has no layers to copy");
    },
    async [Symbol.asyncDispose]() {
      await leave();
      await removeFolder(spec.directory);
      resolve({ reason: "killed" });
    },
  };
}

/** Only what this engine put there goes; the folder itself goes when nothing else is in it. */
async function removeFolder(directory: string): Promise<void> {
  await removeSockets(directory);
  await removeEmpty(directory);
}

async function removeSockets(directory: string): Promise<void> {
  for (const name of Object.values(SOCKET_NAMES)) await rm(join(directory, name), { force: true });
}
