/**
 * The daemon's program in compiled form, made once beside it: without it every start compiles anew,
 * and keeps the memory that this took.
 */

import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { TOOL_ENVIRONMENT } from "./find-program.ts";
import { launcherCommand } from "./launcher.ts";
import { SOCKET_NAMES } from "./network.ts";
import { killGroup } from "./tool.ts";

/** A machine on which the daemon does not start by itself in this time does without. */
const TIMEOUT_MS = 10_000;
const POLL_MS = 20;

/** Where node looks for compiled programs; the same for a folder wherever it is mounted. */
export function cacheEnvironment(directory: string): Readonly<Record<string, string>> {
  return { NODE_COMPILE_CACHE: `${directory}/cache`, NODE_COMPILE_CACHE_PORTABLE: "1" };
}

/**
 * Starts the daemon of this folder once, outside of any container and told nothing, and ends it:
 * node then writes what it compiled. Without success the folder is as good as before.
 */
export async function writeCompileCache(folder: string, flags: readonly string[]): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), "sandbox-mcp-"));
  try {
    await mkdir(join(folder, "cache"), { recursive: true, mode: 0o755 });
    await startAndEnd(folder, { work, flags });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function startAndEnd(
  folder: string,
  { work, flags }: { readonly work: string; readonly flags: readonly string[] },
): Promise<void> {
  const program = [join(folder, "loader"), "--library-path", join(folder, "lib")] as const;
  const [file, ...args] = launcherCommand([
    ["chdir", work],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    ["exec", ...program, join(folder, "node"), ...flags, join(folder, "envd.cjs")],
  ]);
  const child = spawn(file, args, {
    env: { ...TOOL_ENVIRONMENT, ...cacheEnvironment(folder) },
    stdio: "ignore",
    detached: true,
  });
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  child.once("error", () => end()).once("exit", () => end());
  const timer = setTimeout(() => killGroup(child.pid), TIMEOUT_MS);
  const deadlineMs = performance.now() + TIMEOUT_MS;
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  while (!isOver() && performance.now() < deadlineMs) {
    if (await answers(join(work, SOCKET_NAMES.control))) break;
    await delay(POLL_MS);
  }
  child.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}

async function answers(socketPath: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const call = request({ socketPath, path: "/health", timeout: TIMEOUT_MS }, (reply) => {
    reply.resume();
    resolve(true);
  });
  call.once("timeout", () => call.destroy());
  call.once("error", () => resolve(false));
  call.end();
  return promise;
}
