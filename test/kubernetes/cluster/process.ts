/** Programs of the cluster: started with a log file, killed and started again by name. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { join } from "node:path";

const GRACE_MS = 5_000;

export interface Program extends AsyncDisposable {
  readonly name: string;
  readonly pid: number | undefined;
  kill(): Promise<void>;
  start(): void;
}

export interface ProgramOptions {
  /** Of its log, and where it runs. */
  readonly directory: string;
  readonly name: string;
  readonly words: readonly [string, ...string[]];
  readonly environment?: Readonly<Record<string, string>>;
}

export function startProgram(options: ProgramOptions): Program {
  const { directory, name, words, environment } = options;
  let child: ChildProcess | undefined;

  function start(): void {
    const [file, ...args] = words;
    const log = createWriteStream(join(directory, `${name}.log`), { flags: "a" });
    const started = spawn(file, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...environment },
      cwd: directory,
    });
    started.stdout.pipe(log);
    started.stderr.pipe(log);
    started.once("error", (error) => log.write(`${error.message}\n`));
    child = started;
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const ended = child;
    child = undefined;
    if (ended === undefined || ended.exitCode !== null || ended.signalCode !== null) return;
    const exit = once(ended, "exit");
    ended.kill(signal);
    const timer = setTimeout(() => ended.kill("SIGKILL"), GRACE_MS);
    await exit;
    clearTimeout(timer);
  }

  start();
  return {
    name,
    get pid() {
      return child?.pid;
    },
    kill: () => end("SIGKILL"),
    start,
    [Symbol.asyncDispose]: () => end("SIGTERM"),
  };
}
