/**
 * The daemon's program in compiled form, made once beside it: without it every start compiles anew,
 * and so does the first call of each kind, and both keep the memory that this took.
 */

import { spawn } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { request, type RequestOptions } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { PROGRAM_ENVIRONMENT } from "../host/find-program.ts";
import { killGroup } from "../host/run-program.ts";
import { SOCKET_NAMES } from "../network/container-sockets.ts";
import { launcherCommand } from "../oci/launcher.ts";

/** The daemon's code in its folder. */
export const DAEMON_FILES = {
  program: "envd.cjs",
  starter: "start.cjs",
} as const;
const COMPILED = "envd.compiled";
const WORK = "work";

/** A machine on which the daemon does not start by itself in this time does without. */
const TIMEOUT_MS = 10_000;
const POLL_MS = 20;

/** What node is told to run, after its flags, where the daemon's folder is seen as this one. */
export function daemonWords(directory: string): [string, string, string] {
  const { program, starter } = DAEMON_FILES;
  return [join(directory, starter), join(directory, program), join(directory, COMPILED)];
}

/**
 * Starts the daemon of this folder once, outside of any container, has it answer a few calls and
 * ends it: what it compiled by then is written. Without success the folder is as good as before.
 */
export async function writeCompileCache(
  folder: string,
  options: { readonly flags: readonly string[]; readonly perlDirectory: string },
): Promise<void> {
  // A part of the draft: what a maker leaves that is killed goes with it.
  const work = join(folder, WORK);
  await mkdir(work, { mode: 0o700 });
  try {
    await rehearse(folder, { work, ...options });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function rehearse(
  folder: string,
  options: {
    readonly work: string;
    readonly flags: readonly string[];
    readonly perlDirectory: string;
  },
): Promise<void> {
  const { work, flags, perlDirectory } = options;
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
  const control = join(work, SOCKET_NAMES.control);
  while (!isOver() && performance.now() < deadlineMs) {
    if (await answers({ socketPath: control, path: "/health" })) break;
    await delay(POLL_MS);
  }
  for (const call of rehearsalOf(work)) await answers(call);
  child.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}

interface Call extends RequestOptions {
  readonly body?: string | Buffer;
}

const ENVELOPE_BYTES = 5;
/** Of the wire, protobuf: StartRequest { process { cmd: "true" } }. */
const START_TRUE = Buffer.from([0x0a, 0x06, 0x0a, 0x04, ...Buffer.from("true")]);

/** What every sandbox is asked first: who it is, a process in either codec, a file, a folder. */
function rehearsalOf(work: string): Call[] {
  const control = join(work, SOCKET_NAMES.control);
  const file = `/files?path=${encodeURIComponent(join(work, "file"))}`;
  const open = { socketPath: join(work, SOCKET_NAMES.public), method: "POST" };
  const rpc = (path: string, type: string, body: string | Buffer): Call => {
    const authorization = `Basic ${Buffer.from("root:").toString("base64")}`;
    const headers = { "connect-protocol-version": "1", "content-type": type, authorization };
    return { ...open, path, headers, body };
  };
  const start = (codec: string, message: string | Buffer) => {
    const head = Buffer.alloc(ENVELOPE_BYTES);
    head.writeUInt32BE(message.length, 1);
    const body = Buffer.concat([head, Buffer.from(message)]);
    return rpc("/process.Process/Start", `application/connect+${codec}`, body);
  };
  const init = JSON.stringify({ defaultUser: "root", envVars: { NAME: "value" } });
  return [
    { socketPath: control, method: "POST", path: "/init", body: init },
    { socketPath: control, method: "POST", path: "/rest" },
    start("proto", START_TRUE),
    start("json", JSON.stringify({ process: { cmd: "sh", args: ["-c", "echo"] } })),
    { ...open, path: file, headers: { "content-type": "application/octet-stream" }, body: "text" },
    { ...open, method: "GET", path: file },
    rpc("/filesystem.Filesystem/ListDir", "application/json", JSON.stringify({ path: work })),
  ];
}

/** Resolves with whether any answer came to its end. */
async function answers({ body, ...options }: Call): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const call = request({ ...options, timeout: TIMEOUT_MS }, (reply) => {
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
