/** The built program as a child process, in a home of its own; it ends with the test. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export const PROGRAM: string = resolve(import.meta.dirname, "../../dist/main.js");
/** A machine under load ends things slowly; what must be quick is measured by its test. */
const EXIT_LIMIT_MS = 60_000;
const START_LIMIT_MS = 60_000;

export interface TestProgram extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly stdout: Readable;
  /** Everything written to stderr so far. */
  stderr(): string;
  /** Resolves with the exit code, or the signal's name, within a minute. */
  exited(): Promise<number | string>;
}

/**
 * Tests send nothing to real networks, neither from sandboxes nor to build a template; those about
 * the way out bring a network of their own. What this machine trusts is nothing to them either.
 * `E2E_RUNTIME=runsc` gives their services another runtime.
 */
export const OFFLINE = {
  ...(process.env["E2E_RUNTIME"] !== undefined && {
    SANDBOX_MCP_RUNTIME: process.env["E2E_RUNTIME"],
  }),
  SANDBOX_MCP_EGRESS: "off",
  SANDBOX_MCP_BUILD_BASE: "off",
  SANDBOX_MCP_CA: "off",
};

/** Starts `sandbox-mcp` with only the environment that is given. */
export function startProgram(
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  program: readonly [string, ...string[]] = [process.execPath, PROGRAM],
): TestProgram {
  const [command, ...first] = program;
  const child = spawn(command, [...first, ...words], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", HOME: "/nonexistent", ...OFFLINE, ...environment },
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const exit = once(child, "exit").then(([code, signal]) => code ?? signal);
  const exited = async (): Promise<number | string> => {
    const limit = AbortSignal.timeout(EXIT_LIMIT_MS);
    const late = once(limit, "abort").then(() => {
      throw new Error(`still running after ${EXIT_LIMIT_MS} ms:\n${errors}`);
    });
    return Promise.race([exit, late]);
  };
  return {
    child,
    stdout: child.stdout,
    stderr: () => errors,
    exited,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGTERM");
        await exited();
      }
      requireNoWarning(errors);
    },
  };
}

/** What Node itself warns of, such as listeners without a bound, is a fault of ours. */
function requireNoWarning(errors: string): void {
  const [warning] = /^\(node:\d+\) .*Warning: .*$/m.exec(errors) ?? [];
  if (warning !== undefined) throw new Error(`the program made Node warn: ${warning}`);
}

/** The address that `serve` prints once it listens; a machine under load takes its time. */
export async function listeningUrl(program: TestProgram): Promise<string> {
  const lines = createInterface({
    input: program.stdout,
    signal: AbortSignal.timeout(START_LIMIT_MS),
  });
  for await (const line of lines) {
    const url = /^listening on (http\S+)$/.exec(line)?.[1];
    if (url !== undefined) return url;
  }
  // Its output ends before it does: a caller may ask whether it still runs.
  await program.exited();
  throw new Error(`serve ended before it listened:\n${program.stderr()}`);
}
