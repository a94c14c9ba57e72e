/**
 * An engine without any isolation: the daemon is a plain child of this process. It exists for
 * integration tests; the commands refuse it everywhere else.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { access, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { withDeadline } from "../common/lifetime.ts";
import type { Container, ContainerExit, ContainerSpec, Engine, EngineReport } from "./engine.ts";
import { removeEmpty } from "./files.ts";
import { launcherCommand } from "./launcher.ts";
import { dialControlSocket, dialPort, SOCKET_NAMES } from "./network.ts";
import { killGroup, TOOL_ENVIRONMENT } from "./tool.ts";

const START_TIMEOUT_MS = 10_000;
/** The daemon ends its own children on SIGTERM; after this it has no say any more. */
const END_GRACE_MS = 2_000;

export interface BareEngineOptions {
  /** The daemon as program and arguments; it gets its two sockets as descriptors 3 and 4. */
  readonly command: readonly [string, ...string[]];
}

/** Runs the daemon as a child, with the same sockets and life as in a container. */
export function createBareEngine(options: BareEngineOptions): Engine {
  return {
    name: "bare",
    probe: async () => bareReport(),
    create: async (spec, signal) => startBareContainer(options.command, spec, signal),
    adopt: async () => undefined,
    remove: async (_id, directory) => removeFolder(directory),
  };
}

function bareReport(): EngineReport {
  return { runtime: "bare", level: "none", isUsable: true, checks: [] };
}

async function startBareContainer(
  command: readonly [string, ...string[]],
  spec: ContainerSpec,
  signal: AbortSignal,
): Promise<Container> {
  if (signal.aborted) throw new SandboxError("canceled", "create was canceled");
  await mkdir(spec.directory, { mode: 0o700 });
  const [file, ...args] = launcherCommand([
    ["chdir", spec.directory],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    ["null", "1"],
    ["exec", ...command],
  ]);
  const child = spawn(file, args, {
    env: TOOL_ENVIRONMENT,
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  const exit = exitOf(child);
  const container = createBareContainer({ child, exit, spec });
  try {
    await untilListening(child, signal);
    // A launcher that failed closed its output too, but left no socket.
    await access(join(spec.directory, SOCKET_NAMES.control));
    return container;
  } catch (error) {
    await container[Symbol.asyncDispose]();
    throw toSandboxError(error, "daemon did not start");
  }
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

function createBareContainer(parts: {
  readonly child: ChildProcess;
  readonly exit: Promise<ContainerExit>;
  readonly spec: ContainerSpec;
}): Container {
  const { child, exit, spec } = parts;
  return {
    id: spec.id,
    exit,
    level: "none",
    dial: async (port, signal) => dialPort(spec.directory, port, signal),
    dialControl: async (signal) => dialControlSocket(spec.directory, signal),
    pause: async () => void child.kill("SIGSTOP"),
    resume: async () => void child.kill("SIGCONT"),
    snapshot: async () => {
      throw new SandboxError("unimplemented", "the bare engine has no layers to copy");
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      const timer = setTimeout(() => killGroup(child.pid), END_GRACE_MS);
      await exit;
      clearTimeout(timer);
      await removeFolder(spec.directory);
    },
  };
}

/** Only what this engine put there goes; the folder itself goes when nothing else is in it. */
async function removeFolder(directory: string): Promise<void> {
  for (const name of Object.values(SOCKET_NAMES)) await rm(join(directory, name), { force: true });
  await removeEmpty(directory);
}
