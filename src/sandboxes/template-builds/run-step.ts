/** One step of a build in its sandbox: what it runs there, and what holds after it. */

import { open } from "node:fs/promises";
import { posix } from "node:path";
import type { DaemonClient } from "../../client/daemon-client.ts";
import type { OutputStream } from "../../client/process.ts";
import { anySignal } from "../../common/any-signal.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { formOf } from "../../images/unpack.ts";
import type { LineSink } from "./build-log.ts";
import type { BuildStep } from "./build-request.ts";
import { expandVariables } from "./expand.ts";
import { COPY_SCRIPT, STEP_SCRIPT, USER_SCRIPT, WORKDIR_SCRIPT } from "./scripts.ts";
import { createStepEnd } from "./step-end.ts";
import { MODE_PATTERN, OWNER_PATTERN } from "./step-patterns.ts";

/** A step that takes longer is taken for one that never ends. */
const STEP_LIMIT_MS = 30 * 60_000;
/** What variables are expanded with where no step has set them. */
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** As for a sandbox: the kernel's bound for arguments and environment. */
const MAX_ENVIRONMENT_BYTES = 98_304;
const MAX_COMMAND_CHARACTERS = 120;
const BASH = "/bin/bash";
const ACCOUNT_PATTERN = /^(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,10})$/;

/** What a step finds, and what the next one and the sandboxes of the template find. */
export interface StepState {
  readonly user: string;
  readonly workdir: string;
  readonly environment: Readonly<Record<string, string>>;
}

export interface StepIo {
  readonly daemon: DaemonClient;
  readonly signal: AbortSignal;
  readonly lines: LineSink;
  /** Whether commands are for the shell of a Dockerfile, which is no login shell. */
  readonly fromDockerfile?: boolean;
  /** Path of the archive of a hash on this machine; undefined when it was not uploaded. */
  findFiles(hash: string): Promise<string | undefined>;
}

/** Whether a step changes what is recorded alone, and needs no sandbox. */
export function isRecordOnly({ type }: Pick<BuildStep, "type">): boolean {
  return type === "ENV" || type === "ARG";
}

/** @throws SandboxError invalid_argument for values that become too long. */
export function applyEnv(state: StepState, { args }: BuildStep): StepState {
  const known = { PATH: DEFAULT_PATH, HOME: homeOf(state.user), ...state.environment };
  const environment: Record<string, string> = { ...state.environment };
  for (let index = 0; index + 1 < args.length; index += 2) {
    const [name = "", value = ""] = args.slice(index, index + 2);
    environment[name] = expandVariables(value, known);
  }
  const bytes = Object.entries(environment).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value) + 2,
    0,
  );
  if (bytes <= MAX_ENVIRONMENT_BYTES) return { ...state, environment };
  throw new SandboxError(
    "invalid_argument",
    `the environment has at most ${MAX_ENVIRONMENT_BYTES} bytes, not ${bytes}`,
  );
}

/**
 * Runs a step.
 * @throws SandboxError failed_precondition when what it runs fails, invalid_argument.
 */
export async function runStep(step: BuildStep, state: StepState, io: StepIo): Promise<StepState> {
  const [first = ""] = step.args;
  switch (step.type) {
    case "ENV":
    case "ARG":
      return applyEnv(state, step);
    case "RUN": {
      const [, user = ""] = step.args;
      const words =
        io.fromDockerfile === true ? ["/bin/sh", "-c", first] : [BASH, "-l", "-c", first];
      const call = { words, user: user || state.user, cwd: state.workdir };
      await runProgram(io, call, `command ${cut(first)}`);
      return state;
    }
    case "WORKDIR": {
      const workdir = posix.resolve(state.workdir, first);
      const words = [BASH, "-c", WORKDIR_SCRIPT, "workdir", workdir, state.user];
      await runProgram(io, { words, user: "root", cwd: "/" }, `work folder ${cut(workdir)}`);
      return { ...state, workdir };
    }
    case "USER":
      return { ...state, user: await makeUser(step, io) };
    case "COPY":
      await copyFiles(step, state, io);
      return state;
    default:
      return step.type satisfies never;
  }
}

async function makeUser({ args }: BuildStep, io: StepIo): Promise<string> {
  const [given = "", sudo = ""] = args;
  // A group, as Dockerfiles may name one, is that of the account; the log says where they differ.
  const [account = "", ...groups] = given.split(":");
  const isNamed =
    groups.length <= 1 && [account, ...groups].every((id) => ACCOUNT_PATTERN.test(id));
  if (!isNamed) {
    throw new SandboxError("invalid_argument", `${cut(given)} is no name of an account`);
  }
  const words = [BASH, "-c", USER_SCRIPT, "user", account, sudo, ...groups];
  const script = { words, user: "root", cwd: "/" };
  const name = (await runProgram(io, script, `user ${account}`)).trim();
  if (ACCOUNT_PATTERN.test(name)) return name;
  throw new SandboxError("failed_precondition", `user ${account}: no name was found`);
}

async function copyFiles({ args, filesHash = "" }: BuildStep, state: StepState, io: StepIo) {
  const [source = "", given = "", owner = "", mode = ""] = args;
  const user = owner || state.user;
  if (!OWNER_PATTERN.test(user)) {
    throw new SandboxError("invalid_argument", `${cut(user)} is no owner`);
  }
  if (mode !== "" && !MODE_PATTERN.test(mode)) {
    throw new SandboxError("invalid_argument", `${cut(mode)} is no octal mode`);
  }
  const path = await io.findFiles(filesHash);
  if (path === undefined) {
    throw new SandboxError("failed_precondition", `the files of ${cut(source)} were not uploaded`);
  }
  const archive = `/tmp/.files-${filesHash.slice(0, 32)}.tar`;
  await sendArchive(io, path, archive);
  const target = posix.resolve(state.workdir, given) + (given.endsWith("/") ? "/" : "");
  const words = [BASH, "-c", COPY_SCRIPT, "copy", archive, source, target, user, mode];
  const script = { words, user: "root", cwd: "/" };
  await runProgram(io, script, `copy of ${cut(source)} to ${cut(given)}`);
}

/** Without its compression: not every tar knows it by itself, and some have no gzip beside them. */
async function sendArchive({ daemon, signal }: StepIo, path: string, target: string) {
  await using file = await open(path);
  const isGzip = (await formOf(file)) === "gzip";
  const content = file.createReadStream({ start: 0, autoClose: false });
  await daemon.sendFile(target, content, { user: "root", signal, isGzip });
}

interface ProgramCall {
  /** The program and its arguments. */
  readonly words: readonly string[];
  readonly user: string;
  readonly cwd: string;
}

/** Its output goes to the lines; a short one is returned, too. */
async function runProgram(io: StepIo, call: ProgramCall, subject: string): Promise<string> {
  let outcome: Outcome;
  try {
    outcome = await followProgram(io, call);
  } catch (error) {
    throw isUnknownUser(error) ? unknownUser(subject, call.user, error) : error;
  } finally {
    // What a program wrote last may explain why it was cut, and a prompt has no line feed.
    io.lines.end();
  }
  if (outcome.exitCode === 0) return outcome.output;
  throw new SandboxError(
    "failed_precondition",
    `${subject} failed with exit code ${outcome.exitCode}`,
    { hasSandboxPaths: true },
  );
}

/** The daemon refuses the calls of such a one as it does those without a token. */
function isUnknownUser(error: unknown): boolean {
  if (!(error instanceof SandboxError)) return false;
  return hasErrorCode(error.cause, "unauthenticated");
}

function unknownUser(subject: string, user: string, cause: unknown): SandboxError {
  return new SandboxError(
    "failed_precondition",
    `${subject}: no user ${cut(user)} in the sandbox`,
    {
      hint: "make the account in a step before",
      hasSandboxPaths: true,
      cause,
    },
  );
}

interface Outcome {
  /** Its beginning. */
  readonly output: string;
  readonly exitCode: number;
}

async function followProgram(
  { daemon, signal, lines }: StepIo,
  call: ProgramCall,
): Promise<Outcome> {
  const stepEnd = createStepEnd();
  const args = ["-c", STEP_SCRIPT, "sh", ...stepEnd.words, ...call.words];
  const request = { cmd: "/bin/sh", args, cwd: call.cwd, env: {}, hasStdin: false };
  const left = new AbortController();
  const followed = anySignal([signal, left.signal]);
  const options = { user: call.user, signal: followed, timeoutMs: STEP_LIMIT_MS };
  let output = "";
  const write = (stream: OutputStream, bytes: Uint8Array) => {
    if (bytes.length === 0) return;
    lines.write(stream, bytes);
    if (stream === "stdout" && output.length < MAX_COMMAND_CHARACTERS) {
      output += Buffer.from(bytes).toString("utf8").slice(0, MAX_COMMAND_CHARACTERS);
    }
  };
  let exitCode: number | undefined;
  try {
    for await (const event of daemon.process.start(request, options)) {
      if (event.type === "data") write(event.stream, stepEnd.take(event.stream, event.bytes));
      exitCode = event.type === "end" ? event.exitCode : stepEnd.exitCode();
      if (exitCode !== undefined) break;
    }
  } finally {
    for (const stream of ["stdout", "stderr"] as const) write(stream, stepEnd.rest(stream));
    // What the command left running ends with the sandbox of the step.
    left.abort();
  }
  return { output, exitCode: exitCode ?? 0 };
}

/** As the daemon has it for accounts that are made by steps; a guess that variables alone see. */
function homeOf(user: string): string {
  return user === "root" ? "/root" : `/home/${user}`;
}

function cut(text: string): string {
  return JSON.stringify(text.slice(0, MAX_COMMAND_CHARACTERS));
}
