/**
 * An ordinary user's link from a namespace to the internet: slirp4netns, a program of the user that gives the
 * namespace a link and does with sockets of its own what comes over it. It is started anew when it
 * dies, and ends with this process.
 */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { createBackoff } from "../../common/backoff.ts";
import { errorText, SandboxError } from "../../common/errors.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { findProgram, PROGRAM_ENVIRONMENT } from "../host/find-program.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { whenStarted } from "../host/run-program.ts";
import { canRest } from "./egress-program.ts";
import { changeLinks } from "./namespace.ts";
import { USER_UPLINK, userUplinkLinks } from "./router-links.ts";

/** The program, and its package. */
export const UPLINK_PROGRAM = "slirp4netns";

/** One for each connection: of all sandboxes of the service together. */
const MAX_OPEN_FILES = 4_096;
/** A connection has two buffers of 128 KiB; beyond this the program ends, and starts anew. */
const MAX_ADDRESS_SPACE = 2 * 1024 * 1024 * 1024;
/** By the kernel's numbers. */
const RLIMIT = { openFiles: "7", addressSpace: "9", core: "4" } as const;
const START_TIMEOUT_MS = 30_000;
const RESTART_MS = { first: 100, longest: 5_000 } as const;
const MAX_COMPLAINT_BYTES = 2_048;

export interface UserUplinkOptions {
  /** File of the namespace. */
  readonly network: string;
  /** A path below the home, by which the process is known in lists of processes. */
  readonly owner: string;
  readonly perlDirectory: string;
}

/**
 * Starts it; the link is up when this resolves.
 * @throws SandboxError unavailable when it does not come up.
 */
export async function openUserUplink(options: UserUplinkOptions): Promise<AsyncDisposable> {
  const backoff = createBackoff(RESTART_MS.first, RESTART_MS.longest);
  const closing = new AbortController();
  const { signal } = closing;
  let child: ChildProcess;
  let startedMs = 0;
  const start = async () => {
    child = await startLink(options);
    startedMs = performance.now();
    child.once("exit", again);
  };
  function again(): void {
    if (signal.aborted) return;
    // One that ends soon after its start is started less and less often.
    if (performance.now() - startedMs > RESTART_MS.longest) backoff.reset();
    const next = async () => {
      await delay(backoff.next(), undefined, { signal, ref: false });
      await start();
      if (signal.aborted) child.kill("SIGKILL");
    };
    restart = next().catch(again);
  }
  let restart: Promise<void> = Promise.resolve();
  await start();
  return {
    async [Symbol.asyncDispose]() {
      closing.abort();
      await restart;
      await endOf(child);
    },
  };
}

/** The program with its link, addresses and route. */
async function startLink(options: UserUplinkOptions): Promise<ChildProcess> {
  const child = await whenStarted(UPLINK_PROGRAM, () => spawnProgram(options));
  try {
    await untilReady(child);
    await changeLinks(options.network, userUplinkLinks());
    // Nothing has listened for its end since it was ready.
    if (hasEnded(child)) {
      throw new SandboxError("unavailable", `${UPLINK_PROGRAM}: ended while its link was set up`);
    }
    return child;
  } catch (error) {
    await endOf(child);
    throw error;
  }
}

function spawnProgram({ network, owner, perlDirectory }: UserUplinkOptions): ChildProcess {
  const words = [
    ["--netns-type=path", `--cidr=${USER_UPLINK.network}`, `--mtu=${USER_UPLINK.mtu}`],
    // Neither the host's loopback nor its resolver has an address in there.
    ["--disable-host-loopback", "--disable-dns"],
    ["--enable-sandbox", "--enable-seccomp", "--ready-fd=3", "--exit-fd=4"],
    [network, USER_UPLINK.link],
  ].flat();
  const [file, ...args] = launcherCommand(perlDirectory, [
    ["chdir", "/"],
    limitStep(RLIMIT.openFiles, MAX_OPEN_FILES),
    limitStep(RLIMIT.addressSpace, MAX_ADDRESS_SPACE),
    limitStep(RLIMIT.core, 0),
    ["open", findProgram(UPLINK_PROGRAM) ?? UPLINK_PROGRAM],
    ["run", `sandbox-mcp-uplink:${owner}`, ...words],
  ]);
  return spawn(file, args, {
    env: PROGRAM_ENVIRONMENT,
    stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
    detached: true,
  });
}

function limitStep(resource: string, value: number): LauncherStep {
  return ["limit", resource, String(value), String(value)];
}

/** It writes a byte when the link is there, and says on standard error why it is not. */
async function untilReady(child: ChildProcess): Promise<void> {
  const [, , errors, ready, exit] = child.stdio;
  assert(errors instanceof Readable && ready instanceof Readable && exit instanceof Readable);
  let complaint = "";
  errors.setEncoding("utf8").on("data", (text: string) => {
    complaint = (complaint + text).slice(-MAX_COMPLAINT_BYTES);
  });
  // Its end is what tells: a stream that breaks before is no other news.
  for (const stream of [errors, ready, exit]) stream.on("error", () => undefined);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (reason: string) =>
    reject(new SandboxError("unavailable", `${UPLINK_PROGRAM}: ${quoteUntrusted(reason)}`));
  const timer = setTimeout(() => fail("not ready in time"), START_TIMEOUT_MS);
  ready.once("data", () => resolve());
  child.once("error", (error) => fail(errorText(error)));
  child.once("close", (code, signal) => {
    const last = complaint.trim().split("\n").slice(-2).join("; ");
    fail(last === "" ? `ended by ${signal ?? `status ${code}`}` : last);
  });
  try {
    await promise;
  } finally {
    clearTimeout(timer);
  }
  // What it says later is read, so that it never waits, and kept nowhere.
  errors.removeAllListeners("data").resume();
  ready.destroy();
  // None of them keeps this process alive.
  for (const part of [child, errors, exit]) if (canRest(part)) part.unref();
}

function hasEnded({ exitCode, signalCode, pid }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null || pid === undefined;
}

async function endOf(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, "exit");
  // This process stays for it: where nothing else is under way, the wait would be its end.
  child.ref();
  child.kill("SIGKILL");
  await ended;
}
