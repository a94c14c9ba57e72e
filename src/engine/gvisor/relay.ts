/**
 * The way into a container with a kernel of its own: one small program of the host beside it, which
 * hands connections to that kernel, and which alone pauses and resumes it. Never the freezer of
 * cgroups: a kernel that was frozen loses its processes at a later checkpoint.
 */

import { rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { isThere } from "../../common/files.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { isListening } from "../../common/listening.ts";
import { INSIDE_PORTS } from "../daemon/daemon-command.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";
import { dialSocket, SOCKET_NAMES } from "../network/container-sockets.ts";
import { groupFolders, type CgroupHost } from "../oci/cgroups.ts";
import type { Cgroup } from "../oci/process-group.ts";

/** In the container's folder. */
const ORDERS = "runtime/orders.sock";
/** The number of the program, for the guardian. */
const RELAY_NAME = "runtime/relay";
const RELAY_FILE = "sentry-relay.pl";
const MAX_ANSWER_BYTES = 64;
/** A pause waits for tasks that are inside the kernel. */
const ORDER_TIMEOUT_MS = 15_000;
/** A daemon that is only busy may take longer: it is asked again on a connection of its own. */
const ASK_TIMEOUT_MS = 500;

export interface RelayOptions {
  readonly id: string;
  /** The container's folder. */
  readonly directory: string;
  /** What connections to the daemon begin with. */
  readonly secret: string;
  readonly perlDirectory: string;
  /** The folder of the daemon that runs inside. */
  readonly daemon: string;
  readonly cgroups: CgroupHost;
}

/** Starts the program of a container that runs; it ends with the container, not with this process. */
export async function startRelay(options: RelayOptions, signal: AbortSignal): Promise<void> {
  const { id, directory, secret, perlDirectory, cgroups } = options;
  const { unified, freezer } = groupFolders(cgroups);
  const group = unified ?? freezer;
  const enter: LauncherStep[] =
    group === undefined ? [] : [["enter", join(group, id, "cgroup.procs")]];
  const ports = [String(INSIDE_PORTS.public), String(INSIDE_PORTS.control)];
  const words = [process.arch, id, ...ports, join(directory, RELAY_NAME)];
  const command = launcherCommand(perlDirectory, [
    ...enter,
    ["chdir", directory],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    ["listen", ORDERS],
    ["chdir", "runtime/state"],
    ["exec", ...perlCommand(await findRelay(options), "sentry-relay", words)],
  ]);
  await runProgram(command, { signal, input: `${secret}\n` });
}

/** Starts it in the place of one that died. */
export async function restartRelay(options: RelayOptions, signal: AbortSignal): Promise<void> {
  for (const name of [...Object.values(SOCKET_NAMES), ORDERS]) {
    await rm(join(options.directory, name), { force: true });
  }
  await startRelay(options, signal);
}

/**
 * The program lies in the daemon's folder, so both ends have frames of one version: a service that was
 * updated may find a restored daemon of the version before. Folders of older services lack it.
 */
async function findRelay({ daemon, perlDirectory }: RelayOptions): Promise<string> {
  return (await isThere(join(daemon, RELAY_FILE))) ? daemon : perlDirectory;
}

/** Whether the program of a container listens. */
export async function isRelayed(directory: string): Promise<boolean> {
  return isListening(join(directory, ORDERS));
}

/** How a socket of the program is dialed. */
export type RelayDial = <T>(dial: () => Promise<T>) => Promise<T>;

type Order = "pause" | "resume" | "state" | "ask";

/** Whether the daemon answers on a connection that is open already; where there is none, false. */
export async function askByRelay(directory: string): Promise<boolean> {
  try {
    const socket = await dialSocket(join(directory, ORDERS), signalAfter(ASK_TIMEOUT_MS));
    return (await order(socket, "ask", ASK_TIMEOUT_MS)) === "running";
  } catch {
    // Whatever is wrong, a question on a connection of its own finds it.
    return false;
  }
}

/** The cgroup of a container whose kernel is paused instead of being frozen. */
export function pausedByKernel(
  cgroup: Cgroup,
  directory: string,
  reach: RelayDial = async (dial) => dial(),
): Cgroup {
  const give = async (name: Order) => {
    const signal = signalAfter(ORDER_TIMEOUT_MS);
    // A program that dies before its answer is dialed again: the next one finds what came of the order.
    const ask = async () => order(await dialSocket(join(directory, ORDERS), signal), name);
    const state = await reach(ask).catch((error: unknown) => {
      throw signal.aborted ? refusal(name, error) : error;
    });
    if (state === "failed") throw refusal(name);
    return state;
  };
  return {
    ...cgroup,
    freeze: async () => {
      await give("pause");
    },
    thaw: async () => {
      await give("resume");
    },
    isFrozen: async () => (await give("state")) === "paused",
  };
}

/** @throws SandboxError unavailable without an answer. */
async function order(
  socket: Socket,
  name: Order,
  timeoutMs = ORDER_TIMEOUT_MS,
): Promise<"paused" | "running" | "failed"> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let answer = "";
  const timer = setTimeout(() => socket.destroy(), timeoutMs).unref();
  socket.on("data", (chunk: Buffer) => {
    answer += chunk.toString("latin1");
    if (answer.length > MAX_ANSWER_BYTES) socket.destroy();
  });
  socket.on("error", () => resolve(""));
  socket.on("close", () => resolve(answer));
  socket.write(`${name}\n`);
  const state = (await promise).trim();
  clearTimeout(timer);
  if (state === "paused" || state === "running" || state === "failed") return state;
  throw refusal(name);
}

function refusal(name: Order, cause?: unknown): SandboxError {
  return new SandboxError("unavailable", `the container did not ${name}`, { cause });
}
