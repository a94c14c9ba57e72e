/** From the command line to one row of the commands table, and from its outcome to an exit code. */

import { setFlagsFromString } from "node:v8";
import type { TrialHome } from "./commands/home/trial-home.ts";
import { findCommand, helpText } from "./commands/index.ts";
import { commandLine } from "./commands/program/command-line.ts";
import { EXIT_OK, VERSION, type Command } from "./commands/program/command.ts";
import { FaultList } from "./commands/program/fault-list.ts";
import { startBelowInit } from "./commands/program/first-process.ts";
import { findMisuse } from "./commands/program/usage.ts";
import { withPrivileges } from "./commands/service/engine.ts";
import { SandboxError, errorText, type ErrorCode } from "./common/errors.ts";
import { toHomeFault } from "./common/home-fault.ts";
import { checkHome, missingHome } from "./common/home-folder.ts";
import { createLog, type Logger } from "./common/log.ts";
import { boundLastErrors, watchOutput } from "./common/output-faults.ts";
import { cutText, escapeUnsafe } from "./common/untrusted-text.ts";
import { loadProcessConfig, type Config, type LoadedConfig } from "./config.ts";

const EXIT_USAGE = 64;
/** EX_IOERR of sysexits. */
const EXIT_OUTPUT = 74;
/** A program's or a service's words may be part of a line. */
const MAX_LINE_CHARACTERS = 4096;

/** Exit codes after sysexits. */
const EXIT_CODES = {
  invalid_argument: 64,
  unauthenticated: 78,
  permission_denied: 69,
  not_found: 69,
  already_exists: 69,
  failed_precondition: 78,
  resource_exhausted: 69,
  deadline_exceeded: 69,
  canceled: 69,
  unavailable: 69,
  unimplemented: 69,
  internal: 70,
} as const satisfies Record<ErrorCode, number>;

type Loaded = Exclude<LoadedConfig, { readonly faults: readonly string[] }>;

/** Runs the program to its end and returns its exit code. */
export async function runProgram(): Promise<number> {
  let outputFault: string | undefined;
  watchOutput(process, (text) => {
    outputFault = text;
    complain(text);
    // What is written last may fail after the command is over.
    process.exitCode = EXIT_OUTPUT;
  });
  process.on("uncaughtException", endUncaught);
  const code = await runWords();
  boundLastErrors(process);
  return outputFault === undefined ? code : EXIT_OUTPUT;
}

/** Of a command that does not handle them itself, as servers do. */
function endUncaught(error: unknown): void {
  if (process.listenerCount("uncaughtException") > 1) return;
  complain(errorText(error));
  process.exit(EXIT_CODES.internal);
}

async function runWords(): Promise<number> {
  const loaded = loadProcessConfig();
  if ("faults" in loaded) {
    for (const fault of loaded.faults) complain(fault);
    return loaded.exitCode;
  }
  const { config } = loaded;
  if (config.version) return print(VERSION);
  if (config.help) return print(helpText(findCommand(config.words[0] ?? ""), config.words[1]));
  const [name = "stdio", ...words] = config.words;
  if (config.words.length === 0 && process.stdin.isTTY) return print(helpText());
  const command = findCommand(name);
  if (command === undefined) {
    complain(`${JSON.stringify(name)} is no command: ${commandLine(config, "--help")} lists them`);
    return EXIT_USAGE;
  }
  const misuse = findMisuse(command, words, config);
  if (misuse.length > 0) {
    for (const line of misuse) complain(line);
    return EXIT_USAGE;
  }
  // What processes write passes through in buffers that live for a moment. They are freed when the
  // young generation is, so that stays small; else each 64 MB of them cost a look at everything.
  setFlagsFromString("--semi-space-growth-factor=1");
  return runCommand(command, loaded, words);
}

async function runCommand(
  command: Command,
  { config: given, notes }: Loaded,
  words: readonly string[],
): Promise<number> {
  let log: Logger | undefined;
  let { home } = given;
  await using stack = new AsyncDisposableStack();
  try {
    if (command.hasHome) checkHome(given.home);
    // A home of the default place may be that of a service that has not started yet.
    const missing = given.givenHome === undefined ? undefined : missingHome(given.home);
    if (missing !== undefined && command.withoutHome !== undefined) {
      complain(missing.message);
      return print(command.withoutHome);
    }
    if (missing !== undefined && needsHome(command, given, words)) throw missing;
    const isTried = missing !== undefined && command.triesHome && given.engine !== "kubernetes";
    const trial = isTried ? await openTrial(given.home) : undefined;
    stack.use(trial);
    home = trial?.path ?? home;
    await startBelowInit(command, given);
    const run = await command.load();
    const config = await withPrivileges(command, { ...given, home });
    // Not before: another process may have taken the place of this one.
    for (const note of notes) complain(note);
    const { level = command.logLevel ?? "info", file } = config.log;
    log = createLog({ level, file });
    return await run({ config, words, log });
  } catch (thrown) {
    const error = toHomeFault(thrown, home);
    if (!(error instanceof SandboxError))
      log?.error({ op: "program", err: error }, "unexpected failure");
    const hint = error instanceof SandboxError && error.hint ? `: ${error.hint}` : "";
    const lines = error instanceof FaultList ? error.lines : [`${errorText(error)}${hint}`];
    for (const line of lines) complain(line.replaceAll(home, given.home));
    return error instanceof SandboxError ? EXIT_CODES[error.code] : EXIT_CODES.internal;
  }
}

async function openTrial(home: string): Promise<TrialHome | undefined> {
  return (await import("./commands/home/trial-home.ts")).openTrialHome(home);
}

function needsHome(
  { name, needsHome: needs = [] }: Command,
  { engine }: Config,
  [action = ""]: readonly string[],
): boolean {
  if (name === "key" && engine === "kubernetes") return false;
  return needs.includes(action);
}

function print(text: string): number {
  process.stdout.write(`${text}\n`);
  return EXIT_OK;
}

function complain(line: string): void {
  const text = escapeUnsafe(cutText(line, MAX_LINE_CHARACTERS)).replaceAll("\n", " ");
  process.stderr.write(`sandbox-mcp: ${text}\n`);
}
