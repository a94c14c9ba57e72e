/**
 * The daemon's program in compiled form, made once beside it: without it every start compiles anew,
 * and so does the first call of each kind, and both keep the memory that this took.
 */

import { spawn } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { PROGRAM_ENVIRONMENT } from "../host/find-program.ts";
import { launcherCommand } from "../host/launcher.ts";
import { killGroup } from "../host/run-program.ts";
import { SOCKET_NAMES } from "../network/container-sockets.ts";

/** The daemon's code in its folder. */
export const DAEMON_FILES = {
  program: "daemon.cjs",
  starter: "start.cjs",
} as const;
const COMPILED = "daemon.compiled";
const WORK = "work";

/** One request that the daemon answers while it is compiled. */
export interface WarmUpRequest {
  readonly socket: keyof typeof SOCKET_NAMES;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** The requests for a daemon that may write to this folder. */
export type WarmUp = (folder: string) => readonly WarmUpRequest[];

/** A machine on which the daemon does not start by itself in this time does without. */
const TIMEOUT_MS = 10_000;
const POLL_MS = 20;

/** What node is told to run, after its flags, where the daemon's folder is seen as this one. */
export function daemonWords(directory: string): [string, string, string] {
  const { program, starter } = DAEMON_FILES;
  return [join(directory, starter), join(directory, program), join(directory, COMPILED)];
}

export interface CompileOptions {
  /** Of the daemon's node. */
  readonly flags: readonly string[];
  readonly warmUp: WarmUp;
  /** Where the launcher lies. */
  readonly perlDirectory: string;
}

/**
 * Starts the daemon of this folder once, outside of any container, has it answer a few requests and
 * ends it: what it compiled by then is written. Without success the folder is as good as before.
 */
export async function writeCompileCache(folder: string, options: CompileOptions): Promise<void> {
  // A part of the draft: what a maker leaves that is killed goes with it.
  const work = join(folder, WORK);
  await mkdir(work, { mode: 0o700 });
  try {
    await warmUpDaemon(folder, work, options);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function warmUpDaemon(
  folder: string,
  work: string,
  { flags, warmUp, perlDirectory }: CompileOptions,
): Promise<void> {
  const program = [join(folder, "loader"), "--library-path", join(folder, "lib")] as const;
  const [file, ...args] = launcherCommand(perlDirectory, [
    ["chdir", work],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    ["exec", ...program, join(folder, "node"), ...flags, ...daemonWords(folder), "keep"],
  ]);
  const child = spawn(file, args, { env: PROGRAM_ENVIRONMENT, stdio: "ignore", detached: true });
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  child.once("error", () => end()).once("exit", () => end());
  const timer = setTimeout(() => killGroup(child.pid), TIMEOUT_MS);
  const deadlineMs = performance.now() + TIMEOUT_MS;
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  while (!isOver() && performance.now() < deadlineMs) {
    if (await answers(work, HEALTH)) break;
    await delay(POLL_MS);
  }
  for (const wanted of warmUp(work)) await answers(work, wanted);
  child.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}

const HEALTH: WarmUpRequest = { socket: "control", method: "GET", path: "/health" };

/** Resolves with whether any answer came to its end. */
async function answers(work: string, wanted: WarmUpRequest): Promise<boolean> {
  const { socket, method, path, headers = {}, body } = wanted;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socketPath = join(work, SOCKET_NAMES[socket]);
  const options = { socketPath, method, path, headers, timeout: TIMEOUT_MS };
  const call = request(options, (reply) => {
    reply
      .resume()
      .once("end", () => resolve(true))
      .once("error", () => resolve(false));
  });
  call.once("timeout", () => call.destroy());
  call.once("error", () => resolve(false));
  call.end(body);
  return promise;
}
