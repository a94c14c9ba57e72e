/**
 * `npm run bench -- daemon-phases`: where the time of a daemon's start goes. The daemon of a fresh
 * home is started outside of a container, as PID 1 of a sandbox starts it, and asked what the service
 * asks first. What a container adds is in the rows of `create`.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile } from "node:fs/promises";
import { request, type RequestOptions } from "node:http";
import { join } from "node:path";
import { warmUpRequests } from "../src/commands/service/warm-up-requests.ts";
import { z } from "../src/common/schema.ts";
import { daemonCommand } from "../src/engine/daemon/daemon-command.ts";
import { prepareDaemon } from "../src/engine/daemon/daemon.ts";
import { PROGRAM_ENVIRONMENT } from "../src/engine/host/find-program.ts";
import { launcherCommand } from "../src/engine/host/launcher.ts";
import { SOCKET_NAMES } from "../src/engine/network/container-sockets.ts";
import { openTestHome } from "../test/support/home.ts";
import { median, quantile } from "./figure.ts";

const ROUNDS = 41;
const TIMEOUT_MS = 10_000;
const DIST = join(import.meta.dirname, "../dist");
const RECORDER = join(import.meta.dirname, "daemon-recorder.cjs");

/** Moments of one start, in milliseconds of the wall clock with fractions. */
const momentsSchema = z.object({
  node: z.number(),
  v8: z.number(),
  bootstrapped: z.number(),
  compiledRead: z.number(),
  listening: z.number(),
});

const PHASES = [
  "loader: node and its libraries mapped",
  "node: process set up until V8 runs",
  "node: its own modules loaded",
  "starter: program and compiled code read and accepted",
  "program: evaluated, control socket open",
  "first /health answered",
  "/init answered, public socket open",
  "first process started and ended",
] as const;

/** Prints a line for each phase. Returns the exit code. */
export async function runDaemonPhases(): Promise<number> {
  await using home = await openTestHome();
  const directory = await prepareDaemon(home.path, {
    node: process.execPath,
    bundle: join(DIST, "envd.cjs"),
    starter: join(DIST, "envd-starter.cjs"),
    perlDirectory: DIST,
    warmUp: warmUpRequests,
  });
  const rounds: number[][] = [];
  // The first round fills the page cache and does not count.
  for (let round = 0; round <= ROUNDS; round += 1) {
    const moments = await startOnce(directory, join(home.path, `start-${round}`));
    if (round > 0) rounds.push(moments);
  }
  const total = rounds.map((phases) => phases.reduce((sum, ms) => sum + ms, 0));
  const samples = PHASES.map((_, index) => rounds.map((phases) => phases[index] ?? Number.NaN));
  process.stdout.write(
    "phase                                                   median ms   p95 ms\n",
  );
  for (const [index, name] of PHASES.entries()) printLine(name, samples[index] ?? []);
  printLine("all", total);
  return 0;
}

function printLine(name: string, samples: readonly number[]): void {
  const [middle, high] = [median(samples), quantile(samples, 0.95)];
  const figures = `${middle.toFixed(2).padStart(9)} ${high.toFixed(2).padStart(8)}`;
  process.stdout.write(`${name.padEnd(55)} ${figures}\n`);
}

/** Milliseconds of each phase of one start. */
async function startOnce(directory: string, work: string): Promise<number[]> {
  await mkdir(work);
  const record = join(work, "moments.json");
  const [file, ...args] = launcherCommand(DIST, [
    ["chdir", work],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    // The descriptor closes there: what comes next is the daemon's own.
    ["null", "1"],
    ["exec", ...daemonCommand(directory, ["--require", RECORDER])],
  ]);
  const env = { ...PROGRAM_ENVIRONMENT, MOMENTS: record };
  const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(child.stdout.resume(), "close");
    const points = [wallMs()];
    const control = join(work, SOCKET_NAMES.control);
    await ask({ socketPath: control, path: "/health" });
    const healthyAt = wallMs();
    const init = JSON.stringify({ defaultUser: "root" });
    await ask({ socketPath: control, path: "/init", method: "POST" }, init);
    const initAt = wallMs();
    await startTrue(join(work, SOCKET_NAMES.public));
    const startedAt = wallMs();
    const moments = momentsSchema.parse(JSON.parse(await readFile(record, "utf8")));
    const { node, v8, bootstrapped, compiledRead, listening } = moments;
    points.push(node, v8, bootstrapped, compiledRead, listening, healthyAt, initAt, startedAt);
    return points.slice(1).map((at, index) => at - (points[index] ?? Number.NaN));
  } finally {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
}

function wallMs(): number {
  return performance.timeOrigin + performance.now();
}

/** A Start call with one message in the envelope of the wire. */
async function startTrue(socketPath: string): Promise<void> {
  const message = Buffer.from(JSON.stringify({ process: { cmd: "true" } }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  const authorization = `Basic ${Buffer.from("root:").toString("base64")}`;
  const headers = {
    "connect-protocol-version": "1",
    "content-type": "application/connect+json",
    authorization,
  };
  const path = "/process.Process/Start";
  await ask({ socketPath, path, method: "POST", headers }, Buffer.concat([head, message]));
}

/** Resolves when the reply has ended with 2xx. */
async function ask(options: RequestOptions, body?: string | Buffer): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const call = request({ ...options, agent: false, timeout: TIMEOUT_MS }, (reply) => {
    const status = reply.statusCode ?? 0;
    reply.resume().once("end", () => {
      if (status >= 200 && status < 300) resolve();
      else reject(new Error(`${options.path} answered ${status}`));
    });
  });
  call.once("timeout", () => call.destroy(new Error(`${options.path} took too long`)));
  call.once("error", reject);
  call.end(body);
  await promise;
}
