/**
 * Starts the program that stands in a router's namespace for rules that name hosts, tells it the
 * names of each container, and starts it anew when it dies. It ends with this process.
 */

import { spawn, type ChildProcess, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { createBackoff } from "../../common/backoff.ts";
import { withDeadline } from "../../common/clock.ts";
import { errorText, SandboxError } from "../../common/errors.ts";
import type { ControlMessage, Settings } from "../../egress/control-messages.ts";
import { PROGRAM_ENVIRONMENT } from "../host/find-program.ts";
import { launcherCommand } from "../host/launcher.ts";
import { whenStarted } from "../host/run-program.ts";
import { BLOCKED_NETWORKS } from "./egress.ts";
import { gatewayAddress, PROXY_PORTS } from "./router-rules.ts";

const MAX_MEMORY_MB = 128;
const REPLY_TIMEOUT_MS = 10_000;
const RESTART_MS = { first: 100, longest: 5_000 } as const;

export interface EgressProgramOptions {
  /** File of the router's namespace. */
  readonly network: string;
  /** The account that it runs under, which no program of a container has. */
  readonly user: number;
  readonly resolvers: readonly string[];
  /** The outside's own addresses or networks. */
  readonly hosts: readonly string[];
  readonly program: string;
  readonly perlDirectory: string;
}

export interface EgressProgram {
  /**
   * Replaces the names of a sender; undefined forgets it. In force when it resolves.
   * @throws SandboxError unavailable when the program does not take names.
   */
  order(sender: string, domains: readonly string[] | undefined): Promise<void>;
  /** Asks other name servers from now on: where it runs it starts anew, with the names of all senders. */
  renew(resolvers: readonly string[]): Promise<void>;
  stop(): Promise<void>;
}

/** Nothing is started before the first order. */
export function createEgressProgram(options: EgressProgramOptions): EgressProgram {
  const table = new Map<string, readonly string[]>();
  let run: Promise<Run> | undefined;
  const backoff = createBackoff(RESTART_MS.first, RESTART_MS.longest);
  let isStopped = false;
  let { resolvers } = options;
  let starts = 0;
  function again(): void {
    run = undefined;
    // Redirected connections are refused meanwhile, since nothing listens.
    setTimeout(retry, backoff.next()).unref();
  }
  function retry(): void {
    if (!isStopped && table.size > 0) void ensure().catch(again);
  }
  const start = async (): Promise<Run> => {
    starts += 1;
    const number = starts;
    const started = await startRun({ ...options, resolvers });
    // The end of one that was given up is no news once there is another one.
    started.child.once("exit", () => number === starts && again());
    try {
      for (const [sender, domains] of table) await started.send({ sender, domains });
    } catch (error) {
      // One that does not take its names would keep its ports from the next one.
      started.child.kill("SIGKILL");
      throw error;
    }
    backoff.reset();
    return started;
  };
  const ensure = async (): Promise<Run> => {
    run ??= start();
    try {
      return await run;
    } catch (error) {
      run = undefined;
      throw error;
    }
  };
  return {
    async order(sender, domains) {
      if (domains === undefined) {
        if (table.delete(sender)) await forget(await run?.catch(() => undefined), sender);
        return;
      }
      table.set(sender, domains);
      await (await ensure()).send({ sender, domains });
    },
    async renew(others) {
      resolvers = others;
      await endRun(run);
    },
    async stop() {
      isStopped = true;
      table.clear();
      await endRun(run);
    },
  };
}

async function endRun(run: Promise<Run> | undefined): Promise<void> {
  const child = await run?.then((started) => started.child).catch(() => undefined);
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  // This process stays for it: where nothing else is under way, the wait would be its end.
  child.ref();
  child.kill("SIGKILL");
  await ended;
}

/** What does not forget is ended, and started anew without what it should forget. */
async function forget(running: Run | undefined, sender: string): Promise<void> {
  try {
    await running?.send({ sender, domains: null });
  } catch {
    running?.child.kill("SIGKILL");
  }
}

interface Run {
  readonly child: ChildProcess;
  /** Resolves once the program has done what the line says. */
  send(line: Settings | ControlMessage): Promise<void>;
}

async function startRun(options: EgressProgramOptions): Promise<Run> {
  const { network, user, resolvers, hosts, program, perlDirectory } = options;
  // By its text: the account that it runs under may find no file of ours.
  const text = await readFile(program, "utf8");
  const words = [
    `--max-old-space-size=${MAX_MEMORY_MB}`,
    "--disable-sigusr1",
    "--input-type=module",
    "--eval",
    text,
  ];
  const [file, ...args] = launcherCommand(perlDirectory, [
    ["chdir", "/"],
    ["netns", network],
    ["open", process.execPath],
    ["become", String(user)],
    ["run", "sandbox-mcp-egress", ...words],
  ]);
  const child = await whenStarted("the program for hostnames", () =>
    spawn(file, args, {
      env: PROGRAM_ENVIRONMENT,
      stdio: ["pipe", "pipe", "ignore"],
      detached: true,
    }),
  );
  const send = createLink(child);
  try {
    const never = [...BLOCKED_NETWORKS, ...hosts];
    const ports = {
      namePort: PROXY_PORTS.names,
      webPort: PROXY_PORTS.web,
      tlsPort: PROXY_PORTS.tls,
    };
    await send({ address: gatewayAddress(), ...ports, resolvers, never });
    return { child, send };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** Lines to the program; each is answered by one line, in their order. */
function createLink(child: Child): Run["send"] {
  const waiting: PromiseWithResolvers<void>[] = [];
  // None of them keeps this process alive: what is waited for has a timer that does.
  for (const part of [child, child.stdin, child.stdout]) if (canRest(part)) part.unref();
  createInterface({ input: child.stdout }).on("line", () => waiting.shift()?.resolve());
  const fail = (reason: string) => {
    const error = new SandboxError("unavailable", `the program for hostnames ${reason}`);
    for (const { reject } of waiting.splice(0)) reject(error);
  };
  child.stdin.on("error", () => fail("does not listen"));
  child.once("error", (error) => fail(`did not start: ${errorText(error)}`));
  child.once("exit", (code, signal) => fail(`ended by ${signal ?? `status ${code}`}`));
  return async (line) => {
    const reply = Promise.withResolvers<void>();
    waiting.push(reply);
    child.stdin.write(`${JSON.stringify(line)}\n`);
    await withDeadline(reply.promise, REPLY_TIMEOUT_MS, silence);
  };
}

function silence(): SandboxError {
  return new SandboxError("unavailable", "the program for hostnames is silent");
}

export function canRest(part: object): part is { unref(): void } {
  return "unref" in part && typeof part.unref === "function";
}
